package cuda

import "syscall"

// threadID tells the fake driver which thread calls.
func threadID() int { return syscall.Gettid() }
