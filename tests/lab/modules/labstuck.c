// SPDX-License-Identifier: GPL-2.0
/*
 * labstuck: a stand-in for a GPU driver that does not let go of a device in use.  Unbinding waits, not to be
 * interrupted, until somebody writes 1 to /sys/module/labstuck/parameters/release.
 * It takes edu, which has no driver of its own.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/pci.h>

static bool release;
module_param(release, bool, 0644);

static int labstuck_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	return 0;
}

static void labstuck_remove(struct pci_dev *pdev)
{
	pci_info(pdev, "labstuck: attempting to remove a device with non-zero usage count\n");
	while (!READ_ONCE(release))
		msleep(100);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, { } };

static struct pci_driver labstuck_driver = {
	.name = "labstuck",
	.id_table = ids,
	.probe = labstuck_probe,
	.remove = labstuck_remove,
};
module_pci_driver(labstuck_driver);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("stand-in for a driver that does not let go");
