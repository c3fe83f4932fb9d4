package pool

import (
	"encoding/hex"
	"os"
	"strings"
	"sync"
)

// Boot returns the boot id of the running system, or zero if the system has none. The id is
// different after each start of the machine. Tests replace Boot.
var Boot = sync.OnceValue(func() BootID { return bootIn("/proc/sys/kernel/random/boot_id") })

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
