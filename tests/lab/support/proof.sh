# shellcheck shell=bash
# Helpers of the proofs; sourced by each, inside L1.
set -euo pipefail
failures=0
virsh() { timeout 60 virsh "$@"; } # a libvirtd that hangs must not hang the proof
pass() { echo "ok    $*"; }
fail() { echo "FAIL  $*"; failures=$((failures + 1)); }
# expect WHAT WANT GOT
expect() { if [ "$2" = "$3" ]; then pass "$1: $3"; else fail "$1: want '$2', got '$3'"; fi; }
# check WHAT COMMAND...: COMMAND must succeed.
check() { local what=$1; shift; if "$@"; then pass "$what"; else fail "$what"; fi; }
# refused WHAT REGEX COMMAND...: COMMAND must fail and say REGEX.
refused() {
    local what=$1 regex=$2 said; shift 2
    if said=$("$@" 2>&1); then fail "$what: not refused"; return; fi
    said=$(grep -v '^error: Failed to create domain' <<< "$said" || true)
    if grep -qE "$regex" <<< "$said"; then pass "$what: $(grep -E "$regex" <<< "$said" | head -1)"
    else fail "$what: refused, but with: $said"; fi
}
finish() { echo "failures: $failures"; exit "$((failures > 0))"; }

load() { [ -e "/sys/module/$1" ] || insmod "modules/$1.ko"; } # MODULE of the lab's own; an earlier proof may have done so

driver() { # ADDRESS -> name of the bound driver or "none"
    local link=/sys/bus/pci/devices/$1/driver
    if [ -e "$link" ]; then basename "$(readlink "$link")"; else echo none; fi
}
# disk_of ADDRESS -> node of an NVMe controller's disk: nvme0n1, where the controller has only a path to it, nvme0c0n1
disk_of() { echo /dev/"$(basename "$(echo /sys/bus/pci/devices/"$1"/nvme/nvme*/nvme*n1)" | sed -E 's/c[0-9]+n/n/')"; }
group() { basename "$(readlink "/sys/bus/pci/devices/$1/iommu_group")"; }
members() { local m=(/sys/kernel/iommu_groups/"$1"/devices/*); echo "${m[@]##*/}"; }

hostdev() { # ADDRESS [yes|no] -> <hostdev> of a PCI function
    local d=$1
    cat <<XML
<hostdev mode='subsystem' type='pci' managed='${2:-yes}'>
  <source><address domain='0x${d%%:*}' bus='0x${d:5:2}' slot='0x${d:8:2}' function='0x${d:11:1}'/></source>
</hostdev>
XML
}
mdev() { # UUID -> <hostdev> of a mediated device
    echo "<hostdev mode='subsystem' type='mdev' model='vfio-pci' managed='no'>
  <source><address uuid='$1'/></source></hostdev>"
}
# domain NAME TYPE APPEND DEVICE-XML -> domain XML (TYPE: kvm or qemu)
domain() {
    cat <<XML
<domain type='$2'>
  <name>$1</name>
  <memory unit='MiB'>${L2_MEM:-128}</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>/lab/l2/vmlinuz</kernel>
    <initrd>/lab/l2/l2-initrd</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 $3</cmdline>
  </os>
  <features><acpi/></features>
  $([ "$2" != kvm ] || echo "<cpu mode='host-passthrough'/>")
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>destroy</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    <serial type='file'><source path='/run/$1.log'/></serial>
    $4
  </devices>
  ${L2_RAW:-}
</domain>
XML
}
# start NAME TYPE APPEND DEVICE-XML: create the domain (transient)
start() {
    rm -f "/run/$1.log"
    domain "$@" > "/run/$1.xml"
    virsh -q create "/run/$1.xml"
}
# seen NAME WORD [SECONDS]: wait until L2 wrote WORD on its console
seen() {
    local i
    for ((i = 0; i < ${3:-120} * 5; i++)); do
        grep -aq "$2" "/run/$1.log" 2> /dev/null && return 0
        sleep 0.2
    done
    echo "L2 $1 never wrote '$2'; its console:"; cat "/run/$1.log" || true
    cat "/var/log/libvirt/qemu/$1.log" || true
    return 1
}
gone() { # NAME: wait until the domain ended
    local i
    for ((i = 0; i < 150; i++)); do virsh -q domstate "$1" > /dev/null 2>&1 || return 0; sleep 0.2; done
    return 1
}
# sees NAME VENDOR DEVICE: L2 listed such a PCI function
sees() { grep -aq "^L2-PCI .* $2 $3" "/run/$1.log"; }
elapsed() { awk -v a="$1" '{ printf "%.1f s", $1 - a }' /proc/uptime; } # since the time $1
daemon() { # start libvirtd again and wait for it
    local i
    libvirtd -d 9>&- # of a proof that lends
    for ((i = 0; i < 15; i++)); do timeout 5 virsh -q uri > /dev/null 2>&1 && return 0; sleep 0.5; done
    echo "note  libvirtd does not answer"; tail -5 /var/log/libvirt/libvirtd.log; return 1
}
now() { cut -d' ' -f1 /proc/uptime; }
