package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/internal/progress"
)

func newDevicesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List the devices of this machine",
		Long: `Devices lists what weft can run on: the CPU, then each NVIDIA GPU with its memory, or the reason
why it cannot be used. * marks the device that --device auto chooses now.

With --json the output is an array of objects: device (as --device takes it), auto, kind, name,
units (cores or multiprocessors), arch (10 times major plus minor compute capability of a GPU), l2
(bytes of the last cache), driver, memory_free and memory_total (bytes), and error if the device
cannot be used.`,
		Example: `  weft devices
  weft devices --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := progress.Interruptible(cmd.Context(), func() ([]auto.Entry, error) { return auto.List(), nil })
			if err != nil {
				return err
			}
			return runDevices(a, entries)
		},
	}
}

func runDevices(a *app, entries []auto.Entry) error {
	if a.json {
		return writeDevicesJSON(a.stdout, entries)
	}
	return writeDevicesTable(a.stdout, entries)
}

// chosen returns the index of the entry that "auto" opens, or -1 if none can be opened. That entry
// is the GPU with the most free memory, or the CPU if no GPU is usable.
func chosen(entries []auto.Entry) int {
	best := -1
	for i, e := range entries {
		if e.Err != nil {
			continue
		}
		if best < 0 || entries[best].Properties.Kind == device.CPU || e.Memory.Free > entries[best].Memory.Free {
			best = i
		}
	}
	return best
}

func writeDevicesTable(w io.Writer, entries []auto.Entry) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "device", "name", "units", "arch", "L2", "driver", "free", "total"})
	numbers := []table.ColumnConfig{}
	for _, name := range []string{"units", "arch", "L2", "free", "total"} {
		numbers = append(numbers, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(numbers)
	auto := chosen(entries)
	for i, e := range entries {
		mark := ""
		if i == auto {
			mark = "*"
		}
		p := e.Properties
		row := table.Row{mark, e.Choice, p.Name, orDash(p.Units), orDash(p.Arch), "-", p.Driver, "-", "-"}
		if p.L2 > 0 {
			row[5] = binaryUnits(uint64(p.L2))
		}
		if e.Err == nil {
			row[7], row[8] = binaryUnits(e.Memory.Free), binaryUnits(e.Memory.Total)
		}
		t.AppendRow(row)
	}
	if _, err := fmt.Fprintln(w, t.Render()); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Err != nil {
			if _, err := fmt.Fprintf(w, "\n%s cannot be used: %v\n", e.Choice, e.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// binaryUnits formats a number of bytes with four digits, such as "23.46 GiB".
func binaryUnits(n uint64) string {
	prefixes := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	x, i := float64(n), 0
	for x >= 1023.5 && i < len(prefixes)-1 {
		x /= 1024
		i++
	}
	return fmt.Sprintf("%.4g %sB", x, prefixes[i])
}

// jsonDevice is an element of the output of weft devices --json.
type jsonDevice struct {
	Device      string      `json:"device"`
	Auto        bool        `json:"auto"`
	Kind        device.Kind `json:"kind"`
	Name        string      `json:"name,omitempty"`
	Units       int         `json:"units,omitempty"`
	Arch        int         `json:"arch,omitempty"`
	L2          int         `json:"l2,omitempty"`
	Driver      string      `json:"driver,omitempty"`
	MemoryFree  uint64      `json:"memory_free"`
	MemoryTotal uint64      `json:"memory_total"`
	Error       string      `json:"error,omitempty"`
}

func writeDevicesJSON(w io.Writer, entries []auto.Entry) error {
	list := make([]jsonDevice, len(entries))
	auto := chosen(entries)
	for i, e := range entries {
		p := e.Properties
		list[i] = jsonDevice{
			Device: e.Choice, Auto: i == auto, Kind: p.Kind, Name: p.Name, Units: p.Units, Arch: p.Arch, L2: p.L2,
			Driver: p.Driver, MemoryFree: e.Memory.Free, MemoryTotal: e.Memory.Total,
		}
		if e.Err != nil {
			list[i].Error = e.Err.Error()
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}
