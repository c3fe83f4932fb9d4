package nccl

// SetMaxBytes sets the bound of a round, so that small exchanges take several rounds. It returns
// the previous bound.
func SetMaxBytes(n int) (before int) {
	before, maxBytes = maxBytes, n
	return before
}
