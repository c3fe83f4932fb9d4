package main

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/table/flags"
)

func newPoolCreateCommand(a *app) *cobra.Command {
	var o gphash.Options
	var hash string
	var durable durabilityFlags
	cmd := &cobra.Command{
		Use:   "create [flags] FILE",
		Short: "Create a pool with an empty index",
		Long: `Create makes a pool with an empty index in a new file that only its owner can read, and describes it
as "weft pool info" does. An existing file is an error and stays as it is.

The file gets its whole size at once, so a full file system is an error now and not later. The index
grows within that size. Where the pool lies decides what it survives:
  a file system in memory, such as /dev/shm   the end of processes
  a device such as /dev/dax0.0                power failures; the pool takes the whole device
  a file on memory named by --assert-pmem     power failures; each later opening needs the flag, too
With --durability pmem, create fails unless the pool survives power failures.`,
		Example: `  weft pool create /dev/shm/users.pool --key-size 8 --value-size 128 --capacity 1000000
  weft pool create urls.pool --key-size variable --value-size variable --capacity 100000 --size 256MiB
  weft pool create small.pool --key-size 16 --value-size 8 --capacity 5000 --size 64MiB --hash fast
  weft pool create /dev/dax0.0 --key-size 8 --value-size 128 --capacity 1000000 --durability pmem
  weft pool create /mnt/nvdimm/users.pool --key-size 8 --value-size 128 --capacity 1000000 --assert-pmem persistent`,
		Args: a.onePool,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := poolOptions(cmd, &o, hash)
			if err == nil {
				o.Durability, o.AssertPMem, err = durable.options("create")
			}
			if err != nil {
				return err
			}
			return runPoolCreate(cmd.Context(), a, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var((*rowSize)(&o.KeySize), "key-size", "bytes of a key, 1 to 128, or variable for 1 to 4096 (required)")
	f.Var((*rowSize)(&o.ValueSize), "value-size", "bytes of a value, 1 to 65536, or variable for 0 to 65536 (required)")
	f.IntVar(&o.Capacity, "capacity", 0, "keys that fit before the index grows (required)")
	f.Var((*flags.Bytes)(&o.Size), "size", "bytes of the pool, such as 64MiB (default: room for four times the capacity)")
	f.IntVar(&o.Slots, "slots", 8, "slots of a bucket")
	f.IntVar(&o.Hashes, "hashes", 2, "hash locations of a key in a level, at most 4")
	f.IntVar(&o.Levels, "levels", 2, "levels; slots x hashes x levels is at most 32")
	f.IntVar(&o.AtomicBatch, "atomic-batch", 0, "most operations of an atomic batch; 0: operations are atomic one by one")
	f.IntVar(&o.AtomicTail, "atomic-tail", 0, "operations that a GPU may keep in the log of atomic batches")
	f.StringVar(&hash, "hash", "siphash", "hash of keys: siphash, or fast if no attacker chooses keys")
	durable.add(f)
	return cmd
}

// poolOptions checks the flags of create.
func poolOptions(cmd *cobra.Command, o *gphash.Options, hash string) error {
	for _, name := range []string{"key-size", "value-size", "capacity"} {
		if !cmd.Flags().Changed(name) {
			return flags.Usage("pool create: --%s is missing", name)
		}
	}
	for _, name := range []string{"capacity", "size", "slots", "hashes", "levels"} {
		// An option of 0 selects the package's default, which a user who sets the flag does not
		// want.
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "0" {
			return flags.Usage("pool create --%s 0: must be positive", name)
		}
	}
	if o.Hash.UnmarshalText([]byte(hash)) != nil {
		return flags.Usage("pool create --hash %.60q: want siphash or fast", hash)
	}
	return nil
}

func runPoolCreate(ctx context.Context, a *app, path string, o gphash.Options) error {
	dev, err := a.openPoolDevice(ctx)
	if err != nil {
		return err
	}
	defer dev.Close()
	x, err := createPool(path, dev, o)
	if errors.Is(err, weft.ErrOptions) {
		return flags.UsageError{Err: poolError("create", path, err)}
	}
	if err == nil {
		err = x.Close()
	}
	if err != nil {
		return poolError("create", path, err)
	}
	return runPoolInfo(a, path)
}

func createPool(path string, dev device.Device, o gphash.Options) (io.Closer, error) {
	if o.KeySize == variable || o.ValueSize == variable {
		o.KeySize, o.ValueSize = max(o.KeySize, 0), max(o.ValueSize, 0)
		return gphash.CreateStrings(path, dev, o)
	}
	return gphash.Create(path, dev, o)
}

// rowSize is a flag value: the length of keys or values. 0 is invalid.
type rowSize int

// variable stands for variable length.
const variable = -1

// String implements [pflag.Value].
func (s *rowSize) String() string { return strconv.Itoa(int(*s)) }

// Type implements [pflag.Value].
func (s *rowSize) Type() string { return "bytes" }

// Set implements [pflag.Value].
func (s *rowSize) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case text == "variable":
		*s = variable
	case err != nil:
		return errors.New("want a number of bytes, or variable")
	default:
		*s = rowSize(n)
	}
	return nil
}
