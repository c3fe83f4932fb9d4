package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Child runs this program in a new process, with args and with env added to the environment. It
// decodes the JSON that the child prints into result. The child writes to the standard error of
// this process.
func Child(args, env []string, result any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("child %s: %w", strings.Join(args, " "), err)
	}
	return json.Unmarshal(out, result)
}

// Memory returns the value of a line in Linux's /proc/PID/status, in bytes. VmRSS is the resident
// memory of a process, and VmHWM its peak.
func Memory(pid int, line string) (bytes int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "\n"+line+":")
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		return 0, fmt.Errorf("%s of process %d: %w", line, pid, err)
	}
	return bytes * 1024, nil
}

// ResetPeak sets the VmHWM of a process to its VmRSS.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
