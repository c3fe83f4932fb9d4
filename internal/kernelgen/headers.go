package kernelgen

import (
	"fmt"
	"os"
	"strings"

	"github.com/weftgo/weft/kernels"
)

const (
	// weftInclude is the directory of weft's headers in its own module.
	weftInclude = "kernels/include"
	// include represents the directory of weft's headers in the records and compiler messages of
	// other modules.
	include = weftPath + "/" + weftInclude
)

// unpackHeaders copies weft's headers to a temporary directory for the compiler, except in weft's
// own module. done removes the directory.
func (c *compiler) unpackHeaders() (done func(), err error) {
	if c.options.isWeft() {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "weftgen")
	if err != nil {
		return nil, fmt.Errorf("create a temporary directory for weft's headers: %w", err)
	}
	done = func() { os.RemoveAll(dir) }
	if err := os.CopyFS(dir, kernels.Headers()); err != nil {
		done()
		return nil, fmt.Errorf("copy weft's headers to a temporary directory: %w", err)
	}
	c.include = dir
	return done, nil
}

// toLocal replaces include by the directory of the headers on this machine. toRecord does the
// reverse.
func (c *compiler) toLocal(s string) string {
	if c.include != "" && s == include {
		return c.include
	}
	return s
}

func (c *compiler) toRecord(s string) string {
	if c.include == "" {
		return s
	}
	return strings.ReplaceAll(s, c.include, include)
}

// digestInput returns the digest of a source or header.
func (m *module) digestInput(file string) (fileDigest, error) {
	if name, ok := strings.CutPrefix(file, include+"/"); ok {
		return m.digest(headerFile, name)
	}
	return m.digest(inputFile, file)
}

// includeDirs makes the directories of -I relative to the module's root.
func (o *options) includeDirs() error {
	for i, dir := range o.include {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("-I: %w", err)
		}
		if !info.IsDir() {
			return usage("-I %s: want a directory, found a file", dir)
		}
		if o.include[i], err = o.relative(dir); err != nil {
			return fmt.Errorf("-I: %w", err)
		}
	}
	return nil
}
