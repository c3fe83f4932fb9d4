package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/internal/pool"
	"github.com/weftgo/weft/internal/progress"
)

func newPoolInfoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE",
		Short: "Describe a pool as it is: open, damaged or whole",
		Long: `Info prints what the two superblocks of a pool say. It takes no lock, writes nothing, and reads no
keys, as "weft pool check" does. If another process changes the pool, one copy may look torn.

A pool is clean if its last user closed it. Otherwise it is open now, or a crash left it: opening it
recovers its data. Unclean opens count such recoveries. The generation counts changes of the
superblock.

With --json the output is one object: file, bytes, allocated_bytes, durability (none, process or
pmem, as the file system or the device says), copies (two objects: copy, current, generation,
error), error, and, if one copy is whole, pool: uuid, created, tool, key_bytes and value_bytes (0 is
variable), slots, hashes, levels, hash, size, clean, power_lost, unclean_opens, generation, epoch,
resizing, redo_log (offset and bytes, if batches are atomic), and level_table, from the top: level,
buckets, state, offset, bytes.

Exit status: 0 the superblocks say that the pool can be opened; 1 they do not, and info has printed
what they hold; 2 wrong usage.`,
		Example: `  weft pool info /dev/shm/users.pool
  weft pool info --json /dev/shm/users.pool`,
		Args: a.onePool,
		RunE: func(_ *cobra.Command, args []string) error { return runPoolInfo(a, args[0]) },
	}
}

func runPoolInfo(a *app, path string) error {
	info, err := pool.Inspect(path)
	if err != nil {
		return poolError("info", path, err)
	}
	d := describe(path, &info)
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(d)
	} else {
		err = d.write(a.stdout)
	}
	if err == nil && info.Err != nil {
		err = poolError("info", path, info.Err)
	}
	return err
}

// poolFile is the output of weft pool info.
type poolFile struct {
	File       string      `json:"file"`
	Bytes      int64       `json:"bytes"`
	Allocated  int64       `json:"allocated_bytes"`
	Durability string      `json:"durability"`
	Pool       *poolState  `json:"pool,omitempty"`
	Copies     [2]poolCopy `json:"copies"`
	Error      string      `json:"error,omitempty"`
}

// poolState is the content of the valid superblock. It omits the hash seed, which would allow an
// attacker to choose colliding keys.
type poolState struct {
	UUID       string    `json:"uuid"`
	Created    time.Time `json:"created,omitzero"`
	Tool       string    `json:"tool,omitempty"`
	KeyBytes   uint32    `json:"key_bytes"`
	ValueBytes uint32    `json:"value_bytes"`
	Slots      uint32    `json:"slots"`
	Hashes     uint32    `json:"hashes"`
	Levels     uint32    `json:"levels"`
	Hash       string    `json:"hash"`
	Size       uint64    `json:"size"`
	Clean      bool      `json:"clean"`
	// PowerLost reports that the pool was open when the machine stopped.
	PowerLost    bool   `json:"power_lost,omitempty"`
	UncleanOpens uint64 `json:"unclean_opens"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
	// Resizing reports that keys are being moved from a level that is drained.
	Resizing   bool        `json:"resizing"`
	RedoLog    *poolArea   `json:"redo_log,omitempty"` // log of atomic batches
	LevelTable []poolLevel `json:"level_table"`
}

type poolArea struct {
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
}

type poolLevel struct {
	Level   int    `json:"level"`
	Buckets uint64 `json:"buckets"`
	State   string `json:"state"`
	Offset  uint64 `json:"offset"`
	Bytes   uint64 `json:"bytes"`
}

type poolCopy struct {
	Copy       string `json:"copy"`
	Current    bool   `json:"current"`
	Generation uint64 `json:"generation,omitempty"`
	Error      string `json:"error,omitempty"`
}

func describe(path string, info *pool.Info) *poolFile {
	d := &poolFile{File: path, Bytes: info.Size, Allocated: info.Allocated, Durability: info.Durability.String()}
	for i := range info.Copies {
		c := &info.Copies[i]
		d.Copies[i] = poolCopy{Copy: string(rune('A' + i)), Current: i == info.Current, Generation: c.Superblock.Generation}
		if c.Err != nil {
			d.Copies[i].Error = c.Err.Error()
		}
	}
	if info.Current >= 0 {
		d.Pool = describeState(&info.Copies[info.Current].Superblock)
		d.Pool.PowerLost = info.PowerLost
	}
	if info.Err != nil {
		d.Error = info.Err.Error()
	}
	return d
}

func describeState(s *pool.Superblock) *poolState {
	g := &s.Geometry
	state := &poolState{
		UUID: uuid(s.UUID), Created: s.Created, Tool: s.Tool, KeyBytes: g.KeySize, ValueBytes: g.ValueSize,
		Slots: g.Slots, Hashes: g.Hashes, Levels: g.Levels, Hash: hashName(g.HashID), Size: s.Size,
		Clean: s.Clean, UncleanOpens: s.UncleanOpens, Generation: s.Generation, Epoch: s.Epoch,
		LevelTable: []poolLevel{},
	}
	if s.Features.Incompat&pool.AtomicBatches != 0 {
		state.RedoLog = &poolArea{s.Areas[0].Offset, s.Areas[0].Length}
	}
	for i := len(s.Levels) - 1; i >= 0; i-- {
		if l := s.Levels[i]; l.State != pool.Free {
			state.LevelTable = append(state.LevelTable, poolLevel{i, 1 << i, l.State.String(), l.Offset, l.Length})
			state.Resizing = state.Resizing || l.State == pool.Draining
		}
	}
	return state
}

func uuid(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func hashName(id uint32) string {
	switch id {
	case pool.SipHash:
		return "siphash"
	case pool.FastHash:
		return "fast"
	}
	return fmt.Sprint(id)
}

func (d *poolFile) write(w io.Writer) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fact := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	fact("file", "%s", progress.Printable(d.File))
	fact("size", "%s (%d bytes)", binaryUnits(uint64(d.Bytes)), d.Bytes)
	fact("allocated", "%s", binaryUnits(uint64(d.Allocated)))
	fact("durability", "%s", d.Durability)
	if d.Pool != nil {
		d.Pool.write(fact)
	}
	for _, c := range d.Copies {
		fact("copy "+c.Copy, "%s", c.String())
	}
	t.Flush() // writes to memory and cannot fail
	_, err := io.WriteString(w, text.String())
	return err
}

func (p *poolState) write(fact func(name, format string, args ...any)) {
	created := "unknown"
	if !p.Created.IsZero() {
		created = p.Created.Format(time.RFC3339)
	}
	if p.Tool != "" {
		created += " by " + progress.Printable(p.Tool)
	}
	clean, resizing := "no: it is open, or was not closed", "no"
	if p.PowerLost {
		clean = "no: it was open when the machine stopped"
	}
	if p.Clean {
		clean = "yes"
	}
	if p.Resizing {
		resizing = "yes: keys move up from a level that is drained"
	}
	fact("uuid", "%s", p.UUID)
	fact("created", "%s", created)
	fact("keys", "%s", rowBytes(p.KeyBytes))
	fact("values", "%s", rowBytes(p.ValueBytes))
	fact("geometry", "%d slots, %d hashes, %d levels, %s", p.Slots, p.Hashes, p.Levels, p.Hash)
	fact("clean", "%s", clean)
	fact("unclean opens", "%d", p.UncleanOpens)
	fact("generation", "%d", p.Generation)
	fact("resizing", "%s", resizing)
	if l := p.RedoLog; l != nil {
		fact("redo log", "%s at %d: batches are atomic", binaryUnits(l.Bytes), l.Offset)
	}
	for _, l := range p.LevelTable {
		fact(fmt.Sprintf("level %d", l.Level), "%s, %d buckets, %s at %d", l.State, l.Buckets, binaryUnits(l.Bytes), l.Offset)
	}
}

// rowBytes formats the length of keys or values. 0 means variable length.
func rowBytes(n uint32) string {
	if n == 0 {
		return "of variable length"
	}
	return fmt.Sprintf("%d bytes", n)
}

func (c poolCopy) String() string {
	switch {
	case c.Error != "":
		return progress.Printable(c.Error)
	case c.Current:
		return fmt.Sprintf("generation %d, counts", c.Generation)
	}
	return fmt.Sprintf("generation %d", c.Generation)
}
