package bucket

// FixedCapacity is the capacity of a table of fixed size, or 0 of one that grows.
func FixedCapacity(capacity int, fixed bool) int {
	if fixed {
		return capacity
	}
	return 0
}
