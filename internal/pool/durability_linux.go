package pool

import "golang.org/x/sys/unix"

// durabilityOn returns what a file system of this type grants. A store to a shared mapping is in
// the page cache at once, which is as good as in the file. On a network file system the cache is
// only this machine's, and of a file system in user space nothing is guaranteed.
func durabilityOn(system int64) Durability {
	switch uint32(system) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC:
		return None
	}
	return Process
}
