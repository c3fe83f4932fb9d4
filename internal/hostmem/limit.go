package hostmem

// Limit returns the bytes of memory that the process may use; 0: unknown. That is the memory of the
// machine, or less where a cgroup (v1 or v2, of the process or above it) or a resource limit
// (RLIMIT_AS, RLIMIT_DATA) allows less. It does not subtract what is in use.
func Limit() int64 { return limit() }

// least returns the least of numbers. 0 stands for none.
func least(numbers ...int64) (n int64) {
	for _, m := range numbers {
		if n == 0 || m > 0 && m < n {
			n = m
		}
	}
	return n
}
