package pool

import "golang.org/x/sys/unix"

// durabilityOn returns the durability of files in a file system of the given type. A store to a
// shared mapping is in the page cache at once, and so counts as stored in the file. Network file
// systems provide no durability, since only this machine has the cache. File systems in user space
// guarantee nothing.
func durabilityOn(system int64) Durability {
	switch uint32(system) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return None
	}
	return Process
}
