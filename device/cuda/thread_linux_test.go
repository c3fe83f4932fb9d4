package cuda

import "syscall"

// threadID returns the id of the calling thread, for the fake driver.
func threadID() int { return syscall.Gettid() }
