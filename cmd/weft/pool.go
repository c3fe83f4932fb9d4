package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/pool"
	"github.com/weftgo/weft/internal/table/flags"
)

func newPoolCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Make, describe, check and dump pools of persistent indexes",
		Long: `Pool creates, describes, checks and dumps pools: files of persistent hash indexes, which programs
open with package gphash. An index maps byte strings to byte strings, of fixed or variable length.
Pools need Linux. The CPU works on them unless --device names a GPU; dump uses the CPU only.`,
		Example: `  weft pool create /dev/shm/users.pool --key-size 8 --value-size 128 --capacity 1000000
  weft pool info /dev/shm/users.pool
  weft pool check /dev/shm/users.pool
  weft pool dump /dev/shm/users.pool | head`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := unknownCommand(cmd, args); err != nil {
				return flags.Usage("pool %w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// As in the root command.
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newPoolCreateCommand(a), newPoolInfoCommand(a), newPoolCheckCommand(a), newPoolDumpCommand(a))
	return cmd
}

// onePool requires exactly one file name, which must not be standard output.
func (a *app) onePool(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return flags.Usage("pool %s: no file given", cmd.Name())
	case len(args) > 1:
		return flags.Usage("pool %s %s: one file at a time", cmd.Name(), strings.Join(args, " "))
	}
	if _, err := a.plan(args...); err != nil {
		return fmt.Errorf("pool %s %w", cmd.Name(), err)
	}
	return nil
}

// openPoolDevice opens the device for a pool: the CPU, unless --device selects another one.
func (a *app) openPoolDevice(ctx context.Context) (device.Device, error) {
	if a.device == "auto" {
		a.device = "cpu"
	}
	return a.openDevice(ctx)
}

// openedPool is the index of a pool. Keys and values may have fixed or variable lengths.
type openedPool interface {
	Check(ctx context.Context) error
	Len() int
	Close() error
}

// openPool opens the index of a pool. The report is nil if the pool cannot be opened.
func openPool(ctx context.Context, path string, dev device.Device, o gphash.OpenOptions) (openedPool, *gphash.Report, error) {
	info, err := pool.Inspect(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Current >= 0 && info.Copies[info.Current].Superblock.Features.Incompat&pool.Records != 0 {
		return gphash.OpenStrings(ctx, path, dev, o)
	}
	return gphash.Open(ctx, path, dev, o)
}

// poolFailure is the error of a verb on a pool.
type poolFailure struct {
	verb, path string
	err        error
}

func poolError(verb, path string, err error) error { return &poolFailure{verb, path, err} }

func (e *poolFailure) Unwrap() error { return e.err }

// Error returns the text without the name of the package that failed. For a file error it returns
// only the reason that the system gave.
func (e *poolFailure) Error() string {
	text := e.err.Error()
	if system := (*fs.PathError)(nil); errors.As(e.err, &system) {
		text = system.Err.Error()
	}
	for _, prefix := range []string{"gphash: create: ", "gphash: open: ", "pool: create " + e.path + ": ", "pool: open " + e.path + ": ", "pool: inspect " + e.path + ": "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return fmt.Sprintf("pool %s %s: %s", e.verb, e.path, text)
}
