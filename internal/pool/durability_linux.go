package pool

import "golang.org/x/sys/unix"

// durabilityOn is what a file system grants, by its type. What a process has stored
// to a shared mapping is in the page cache, and as good as in the file, from the
// moment of the store; but over a network it is in this machine's cache, and of a
// file system in user space nobody knows.
func durabilityOn(system int64) Durability {
	switch uint32(system) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return None
	}
	return Process
}
