"""The lab: a guest in QEMU with disks of limited speed, to try playbooks and studies on."""
