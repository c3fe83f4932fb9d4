package hostmem

// Limit returns the bytes of memory that the process may use; 0: unknown. This is the memory of the
// machine, or a lower limit: of a cgroup (v1 or v2, of the process or above it), or of a resource
// (RLIMIT_AS, RLIMIT_DATA). Limit does not subtract memory in use.
func Limit() int64 { return limit() }

// least returns the least of the numbers that are not 0, or 0.
func least(numbers ...int64) (n int64) {
	for _, m := range numbers {
		if n == 0 || m > 0 && m < n {
			n = m
		}
	}
	return n
}
