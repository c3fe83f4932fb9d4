package pool

// Info is what a file says about itself, unchecked, damaged or not.
type Info struct {
	Size       int64 // of the file in bytes
	Allocated  int64 // bytes in blocks; less than Size if the file has holes
	Copies     [2]Copy
	Durability Durability // durability on its file system
	Current    int        // current copy, 0 (A) or 1 (B); -1: neither
	// The pool was open when the machine stopped. Assertions that its memory is persistent are not
	// known here.
	PowerLost bool
	Err       error // why the pool cannot be opened; ignores locks
}
