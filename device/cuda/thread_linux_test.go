package cuda

import "syscall"

// threadID returns the calling thread, for the fake driver.
func threadID() int { return syscall.Gettid() }
