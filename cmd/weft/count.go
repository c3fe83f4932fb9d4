package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftgo/weft/cmd/weft/internal/distinct"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/compress"
	"github.com/weftgo/weft/internal/table/flags"
)

// countOptions holds the flags and arguments of weft count.
type countOptions struct {
	flags.Memory
	by    distinct.Splitter
	top   int      // 0 means all
	names []string // names of files, or stdinName
}

const stdinName = "-"

func newCountCommand(a *app) *cobra.Command {
	var opts countOptions
	var by string
	cmd := &cobra.Command{
		Use:   "count [flags] FILE...",
		Short: "Count the distinct lines, words or records of files",
		Long: `Count prints how often each different line, word or record occurs in the files, most frequent first:
"sort | uniq -c | sort -rn" without sorting all input. A line of output is a count and an item.
Items of equal count are ordered by their bytes. - is standard input.

Items of --by:
  line      lines without the \n that ends them. Empty lines count. If a \r alone ends the first
            line, \r and \r\n end lines, too
  word      words between spaces, \t, \n, \v, \f and \r
  bytes:N   records of N bytes. The last one of a file may be shorter

Lines and words are read from text, which may be compressed by gzip, zstd or bzip2, or be UTF-16
with a byte order mark. Records are the bytes of a file as they are. The end of a file ends an item.

Counts are exact. All cores read the files in pieces. Only distinct items and the longest item are
kept in memory. What exceeds --memory goes to a temporary file. Totals go to standard error.

With --json the output is one object: by, items (with repetitions), distinct, bytes, spilled_bytes
(to the temporary file), seconds, items_per_second, device, device_name, and top, a list of objects
with count and item. An item that is not valid UTF-8 is in item_base64 instead.`,
		Example: `  weft count --top 10 README.md              # most frequent lines
  weft count --by word --top 10 docs/*.md    # most frequent words
  weft count --by word --top 10 --json README.md
  zcat ids.gz | weft count --by bytes:16 -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return flags.Usage("count: no file given; - is standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opts.by, err = distinct.ParseSplitter(by); err != nil {
				return flags.Usage("count --by: %w", err)
			}
			if opts.top < 0 {
				return flags.Usage("count --top %d: must not be negative", opts.top)
			}
			opts.names = args
			return runCount(cmd.Context(), a, opts)
		},
	}
	cmd.Flags().StringVar(&by, "by", "line", "what to count: line, word or bytes:N")
	cmd.Flags().IntVar(&opts.top, "top", 0, "print only the N most frequent items; 0 prints all")
	opts.Memory.Add(cmd.Flags())
	return cmd
}

func runCount(ctx context.Context, a *app, opts countOptions) (err error) {
	if err := opts.Memory.Check("count"); err != nil {
		return err
	}
	if _, err := a.plan(opts.names...); err != nil {
		return fmt.Errorf("count %w", err)
	}
	// Report a missing file now, and not after hours of counting the others.
	size, err := checkFiles("count", opts.names)
	if err != nil {
		return err
	}
	dev, err := a.openHost(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, dev.Close()) }()
	bar := progress.Bytes(a.stderr, a.isTerminal, "counting", size)
	defer bar.Close()
	var read atomic.Int64 // bytes read from files
	var counter *distinct.Counter
	counter, err = distinct.New(dev, opts.by, &distinct.Options{
		Progress: func(int) {
			bar.Add(int(read.Swap(0)))
			bar.Spilled(counter.Spilled())
		},
		Memory: int64(opts.Limit), TempDir: opts.TempDir,
	})
	if err != nil {
		return fmt.Errorf("count on %s: %w", deviceID(dev.Properties()), err)
	}
	defer func() { err = cmp.Or(err, counter.Close()) }()
	start := time.Now()
	for _, name := range opts.names {
		if err := countFile(ctx, a, counter, name, func(r io.Reader) (io.Reader, error) {
			return opts.content(&countingReader{r, &read})
		}); errors.As(err, new(*distinct.KeepError)) {
			return fmt.Errorf("count: %w", flags.Named(err))
		} else if err != nil {
			return fmt.Errorf("count %s: %w", displayName(name), flags.Reason(err))
		}
	}
	bar.Close()
	seconds := time.Since(start)
	top, err := counter.Top(ctx, opts.top)
	if err != nil {
		return fmt.Errorf("count: %w", flags.Named(err))
	}
	defer func() { err = cmp.Or(err, top.Close()) }()
	s := newSummary(opts.by, counter.Totals(), top.Distinct, seconds, dev.Properties())
	s.Spilled = counter.Spilled() + top.Spilled()
	if a.json {
		err = writeJSON(ctx, a.stdout, s, top)
	} else {
		err = writeText(ctx, a.stdout, top)
	}
	if err != nil {
		return fmt.Errorf("count: write results: %w", flags.Reason(err))
	}
	_, err = fmt.Fprintf(a.stderr, "weft: %s\n", s)
	return err
}

// checkFiles returns an error if a file cannot be read. Otherwise it returns the total size in
// bytes, or -1 if unknown.
func checkFiles(verb string, names []string) (size int64, err error) {
	for _, name := range names {
		if name == stdinName {
			size = -1
			continue
		}
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			err = syscall.EISDIR
		}
		if err == nil && info.Mode().IsRegular() {
			// Regular files only, because a pipe must not be opened twice.
			var f *os.File
			if f, err = os.Open(name); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", verb, name, flags.Reason(err))
		}
		switch {
		case !info.Mode().IsRegular():
			size = -1
		case size >= 0:
			size += info.Size()
		}
	}
	return size, nil
}

// countingReader adds the number of bytes read to n.
type countingReader struct {
	r io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// content decompresses and decodes the text of a file. If records are counted, it returns r
// unchanged.
func (o *countOptions) content(r io.Reader) (io.Reader, error) {
	if o.by != distinct.Lines && o.by != distinct.Words {
		return r, nil
	}
	// plain is not closed, because it holds only memory, and may be in use when ctx ends.
	plain, err := compress.Reader(r)
	if err != nil {
		return nil, err
	}
	return compress.Text(bufio.NewReaderSize(plain, 1<<16))
}

func countFile(ctx context.Context, a *app, c *distinct.Counter, name string, content func(io.Reader) (io.Reader, error)) error {
	raw := a.stdin
	if name != stdinName {
		// os.Open waits for the writer of a named pipe.
		f, err := progress.Interruptible(ctx, func() (*os.File, error) { return os.Open(name) })
		if err != nil {
			return err
		}
		defer f.Close()
		raw = f
	}
	// Reading the first bytes may wait, too.
	r, err := progress.Interruptible(ctx, func() (io.Reader, error) { return content(raw) })
	if err != nil {
		return err
	}
	return c.Read(ctx, r)
}

func displayName(name string) string {
	if name == stdinName {
		return "standard input"
	}
	return name
}

// summary is the output of weft count, except the items.
type summary struct {
	By             string  `json:"by"`
	Items          int     `json:"items"`
	Distinct       int     `json:"distinct"`
	Bytes          int     `json:"bytes"`
	Spilled        int64   `json:"spilled_bytes"`
	Seconds        float64 `json:"seconds"` // time for reading and counting
	ItemsPerSecond float64 `json:"items_per_second"`
	Device         string  `json:"device"` // as --device takes it
	DeviceName     string  `json:"device_name"`
}

func newSummary(by distinct.Splitter, t distinct.Totals, different int, d time.Duration,
	p device.Properties) summary {
	s := summary{
		By: by.String(), Items: t.Items, Distinct: different, Bytes: t.Bytes,
		Seconds: d.Seconds(), Device: deviceID(p), DeviceName: p.Name,
	}
	if d > 0 {
		s.ItemsPerSecond = float64(t.Items) / d.Seconds()
	}
	return s
}

func (s summary) String() string {
	spilled := ""
	if s.Spilled > 0 {
		spilled = ", " + progress.SI(float64(s.Spilled), "B") + " in the temporary file"
	}
	return fmt.Sprintf("%s, %d distinct%s, %s in %.3g s: %s items/s on %s (%s)",
		progress.Counted(int64(s.Items), "item"), s.Distinct, spilled, progress.SI(float64(s.Bytes),
			"B"), s.Seconds, progress.SI(s.ItemsPerSecond, ""), s.Device, s.DeviceName)
}
