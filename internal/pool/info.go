package pool

// Info is what a file says about itself, as it is, damaged or not.
type Info struct {
	Size      int64 // of the file in bytes
	Allocated int64 // bytes in blocks; less than Size if there are holes
	Copies    [2]Copy
	Grants    Durability // what the file system does
	Chosen    int        // which copy counts, 0 (A) or 1 (B); -1: neither
	PowerLost bool       // the pool was open when the machine stopped; what asserts that its memory is persistent is not known
	Err       error      // why the pool cannot be opened; nil says nothing of who has it open
}
