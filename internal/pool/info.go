package pool

// Info describes a file as it is, even if the file is damaged.
type Info struct {
	Size       int64 // size of the file in bytes
	Allocated  int64 // bytes in allocated blocks; less than Size if the file has holes
	Copies     [2]Copy
	Durability Durability // durability that the file system provides
	Current    int        // current copy: 0 (A), 1 (B), or -1 if no copy is whole
	// PowerLost reports that the pool was open when the machine stopped. It ignores assertions that
	// the memory is persistent.
	PowerLost bool
	Err       error // why the pool cannot be opened; ignores locks
}
