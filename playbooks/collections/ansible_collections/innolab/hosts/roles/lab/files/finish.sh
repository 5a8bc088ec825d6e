# Run by mmdebstrap on the guest's files, $1, before it packs them.
set -eu
kernel=$(basename "$1"/lib/modules/*)

# Nothing may run by itself during a measurement: no update, no check of arrays, no login prompt.
# Mail about arrays has no reader here.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer mdcheck_start.timer mdcheck_continue.timer \
    mdmonitor-oneshot.timer mdmonitor.service systemd-tmpfiles-clean.timer getty.target \
    getty-static.service systemd-networkd-wait-online.service; do
    ln -sf /dev/null "$1/etc/systemd/system/$unit"
done
chroot "$1" systemctl enable --quiet systemd-networkd.service ssh.service
# Not locked, which would refuse keys too, but a password that no one can type.
chroot "$1" usermod --password '*' root
: > "$1/etc/machine-id"  # each lab gets its own at its first boot

# The initrd: a shell, the modules that the system disk needs, and the init that came with us.
tree=$1/boot/initrd.tree
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/sys" "$tree/root"
install -m 755 "$1/boot/init" "$tree/init"
rm "$1/boot/init"
cp "$1/bin/busybox" "$tree/bin/"
chroot "$1" modprobe --set-version "$kernel" --show-depends --all virtio_pci virtio_blk ext4 crc32c_generic |
    while read -r word file _; do
        [ "$word" = insmod ] || continue
        cp "$1/$file" "$tree/"
        basename "$file" | sed 's,^,/,'
    done | awk '!seen[$0]++' > "$tree/modules"
chroot "$1" sh -c 'cd /boot/initrd.tree && find . | cpio --quiet --create --format=newc' |
    gzip > "$1/boot/initrd.img"
rm -r "$tree"
mv "$1/boot/vmlinuz-$kernel" "$1/boot/vmlinuz"
rm "$1"/vmlinuz*

# The host's settings for its mirrors, which the guest does not reach and need not know.
rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"
