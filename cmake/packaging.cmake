# `cpack` in the build folder makes Debian packages of what is built there: virtrain, virtrain-workloads-cpu and, where
# the CUDA trainer is built, virtrain-workloads-cuda. CMake installs the same files (cmake --install).
set(packaging ${CMAKE_CURRENT_LIST_DIR}/packaging)
set(components virtrain workloads-cpu)
if(TARGET virtrain-resnet50-cuda)
  list(APPEND components workloads-cuda)
endif()

find_program(GZIP gzip REQUIRED)
set(changelog ${PROJECT_BINARY_DIR}/packaging/changelog.gz)
add_custom_command(OUTPUT ${changelog} DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md VERBATIM
  COMMAND sh -c "'${GZIP}' -9nc '${PROJECT_SOURCE_DIR}/CHANGELOG.md' > '${changelog}'")
add_custom_target(changelog ALL DEPENDS ${changelog})
foreach(component ${components})
  set(package virtrain-${component})
  if(component STREQUAL virtrain)
    set(package virtrain)
  endif()
  install(FILES ${packaging}/copyright ${changelog} COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/README.md COMPONENT virtrain DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/virtrain)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs COMPONENT virtrain DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/virtrain)
# Not enabled: that a boot mends what a killed run left is for the host's owner to choose.
install(FILES ${packaging}/virtrain-clean.service COMPONENT virtrain DESTINATION lib/systemd/system)
# Nor this: members of group virtrain get what the host process can do as root.
install(FILES ${packaging}/virtrain-host.socket ${packaging}/virtrain-host@.service COMPONENT virtrain
  DESTINATION lib/systemd/system)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME virtrain)
set(CPACK_PACKAGE_VENDOR "")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would stand before each package's own
set(CPACK_PACKAGE_CONTACT "virtrain maintainers <virtrain@localhost>"
  CACHE STRING "Maintainer of the packages that cpack makes")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version ${PROJECT_VERSION})

# What any run needs and what its guests are made of; without the rest it still compares, reports, imports and exports.
set(CPACK_DEBIAN_VIRTRAIN_PACKAGE_NAME virtrain)
set(CPACK_DEBIAN_VIRTRAIN_PACKAGE_DEPENDS
  "virtrain-workloads-cpu (= ${version}), openmpi-bin, e2fsprogs, hostname, iproute2, kmod, mount, procps")
set(CPACK_DEBIAN_VIRTRAIN_PACKAGE_RECOMMENDS
  "libvirt-daemon-system (>= 9.0), qemu-system-x86, qemu-utils, supermin, cpio, xz-utils, squashfs-tools, \
linux-image-cloud-amd64 | linux-image-amd64, nodejs")
set(CPACK_DEBIAN_VIRTRAIN_PACKAGE_SUGGESTS "virtrain-workloads-cuda, libvirt-clients, systemd | cron")
set(CPACK_DEBIAN_VIRTRAIN_PACKAGE_CONTROL_EXTRA ${packaging}/postinst ${packaging}/prerm ${packaging}/postrm)
set(CPACK_DEBIAN_VIRTRAIN_DESCRIPTION
"measures what virtualization costs a GPU training job
One command takes a scenario file, boots virtual machines through libvirt,
trains ResNet-50 in them and on bare metal of the same size, and leaves
throughput, speedup and a statistical verdict in SQLite, in the terminal and
in a report. It also measures what neighbours cost a tenant.")

set(CPACK_DEBIAN_WORKLOADS-CPU_PACKAGE_NAME virtrain-workloads-cpu)
set(CPACK_DEBIAN_WORKLOADS-CPU_DESCRIPTION
"CPU trainer, probes and stressors of virtrain
virtrain-resnet50-cpu trains ResNet-50 on oneDNN, virtrain-probe measures
bandwidths and rates, virtrain-stress loads one resource of a host. They are
stand-alone programs with one protocol, JSON lines on standard output.")

# CUDA's libraries come from NVIDIA's own packages, under names with its versions, or from no package.
set(CPACK_DEBIAN_WORKLOADS-CUDA_PACKAGE_NAME virtrain-workloads-cuda)
set(CPACK_DEBIAN_WORKLOADS-CUDA_PACKAGE_SECTION contrib/science)
set(CPACK_DEBIAN_WORKLOADS-CUDA_PACKAGE_DEPENDS "virtrain-workloads-cpu (= ${version})")
if(CUDAToolkit_FOUND)
  set(cuda ${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR})
  set(CPACK_DEBIAN_WORKLOADS-CUDA_PACKAGE_RECOMMENDS
    "libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}, libnccl2, libcublas-${cuda}, cuda-nvrtc-${cuda}")
endif()
set(CPACK_DEBIAN_WORKLOADS-CUDA_DESCRIPTION
"CUDA trainer of virtrain
virtrain-resnet50-cuda trains ResNet-50 with cuDNN and NCCL. It needs an
NVIDIA driver, CUDA ${CUDAToolkit_VERSION_MAJOR}, cuDNN 9 and NCCL 2.")
include(CPack)
