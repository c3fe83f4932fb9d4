//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// available returns an error that says what this machine lacks, or nil.
func available() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount file systems")
	}
	var allowed [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &allowed[0]); err != nil || allowed[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errors.New("this container may not mount file systems (CAP_SYS_ADMIN is missing)")
	}
	for _, name := range []string{fuseDevice, "/dev/loop-control"} {
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("a device is missing: %w", err)
		}
	}
	for _, name := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("a program is missing: %w", err)
		}
	}
	return nil
}

const fuseDevice = "/dev/fuse"

// maxSilence is the maximum time between two reports of a guest. Most take milliseconds.
const maxSilence = time.Minute

var errSilent = fmt.Errorf("it reported nothing for %v", maxSilence)

// host serves the disk of a guest and records in a story what the guest reports.
type host struct {
	*disk
	job
	*story
	progress   func(*story) // called after each report
	connection int
	server     *fuse.Server // nil until the guest has mounted the disk
}

// runGuest runs a guest until it ends.
func (h *host) runGuest(ctx context.Context) error {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	fd, err := unix.Open(fuseDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", fuseDevice, err)
	}
	h.connection = fd
	theirs := os.NewFile(uintptr(fd), fuseDevice)
	defer theirs.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), guestEnv+"=1")
	cmd.ExtraFiles = []*os.File{theirs} // connection
	// An interrupt from the terminal reaches only the host.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Setpgid: true}
	var messages bytes.Buffer
	cmd.Stderr = &messages
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a guest: %w", err)
	}
	watchdog := time.AfterFunc(maxSilence, func() { kill(errSilent) })
	err = h.follow(gob.NewDecoder(stdout), gob.NewEncoder(stdin), watchdog)
	if cause := context.Cause(ctx); cause != nil { // errSilent, or an interrupt
		err = fmt.Errorf("the guest was killed: %w", cause)
	}
	if err != nil {
		kill(err)
	}
	watchdog.Stop()
	exit := cmd.Wait()
	if err == nil {
		err = exit
	}
	if err != nil && messages.Len() > 0 {
		err = fmt.Errorf("%w\n%s", err, &messages)
	}
	if h.server != nil {
		h.server.Wait()
	}
	return err
}

// follow answers the reports of a guest until the last one.
func (h *host) follow(in *gob.Decoder, out *gob.Encoder, watchdog *time.Timer) error {
	err := out.Encode(h.job)
	for err == nil {
		var r report
		if err := in.Decode(&r); err != nil {
			return fmt.Errorf("the guest has ended early: %w", err)
		}
		watchdog.Reset(maxSilence)
		h.progress(h.story)
		at := h.position()
		switch r.Event {
		case connected:
			h.server, err = h.serve(h.connection)
		case mounted:
			if h.Format {
				h.first = at
			}
		case opened:
			err = h.open(at, r.Content)
		case begins:
			h.begin(at, r.Change)
		case returned:
			h.finish(at, r.LogBytes)
		case ended:
			return out.Encode(true)
		case failed:
			err = errors.New(r.Error)
		}
		if err == nil {
			err = out.Encode(true)
		}
	}
	return err
}
