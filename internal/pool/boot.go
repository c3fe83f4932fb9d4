package pool

import (
	"encoding/hex"
	"os"
	"strings"
	"sync"
)

// Boot returns the id of the running system, or zero if the system does not tell it. A machine that
// has been started again has another one. Tests replace it.
var Boot = sync.OnceValue(func() BootID { return bootIn("/proc/sys/kernel/random/boot_id") })

// bootIn reads the id from a file, where it is written as a UUID.
func bootIn(name string) BootID {
	text, err := os.ReadFile(name)
	if err != nil {
		return BootID{}
	}
	digits, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(digits) != len(BootID{}) {
		return BootID{}
	}
	return BootID(digits)
}
