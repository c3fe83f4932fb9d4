// Package metrics tells what the structures of the process do behind the scenes: how many there
// are, how many pairs and bytes they have, how often they have been rehashed and how long that
// took. [Structures] reads it, and [Publish] makes it a variable of package expvar, which
// programs with an HTTP server show at /debug/vars:
//
//	metrics.Publish("weft")
//
// The numbers are kept in any case, since they change only when a structure is made, closed or
// rehashed. Each structure's Options.Logger is told of the same as it happens, at debug level.
// What took the time of operations, package runtime/pprof shows; see Labels in the options of
// device/cpu.
package metrics

import (
	"expvar"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/observe"
)

// Structure is the account of all structures of one package: of all maps and sets of linear, say.
type Structure struct {
	Name        string // of the package
	Open        int    // structures that have been made, and not closed or collected
	Pairs       int    // that these have; of graphs, edges as often as they are in rows
	Bytes       int    // of memory of those that are hash tables
	Rehashes    int    // since the process began: growth, shrinking, another seed
	RehashTime  time.Duration
	RehashBytes int // of the memory that rehashes have filled
	Collected   int // structures that have been collected without Close
}

// Structures reads the accounts of all packages of which there has been a structure, by name.
func Structures() []Structure {
	accounts := observe.Read()
	all := make([]Structure, len(accounts))
	for i, a := range accounts {
		all[i] = Structure(a)
	}
	return all
}

// Publish makes an expvar variable of the accounts, which are read when somebody asks for it: an
// object by name of the package. A variable of that name that is there already stays as it is.
func Publish(name string) {
	publishing.Lock()
	defer publishing.Unlock()
	if expvar.Get(name) != nil {
		return
	}
	expvar.Publish(name, expvar.Func(func() any {
		all := make(map[string]Structure)
		for _, s := range Structures() {
			all[s.Name] = s
		}
		return all
	}))
}

// publishing is held by who looks whether a variable is there, and makes it.
var publishing sync.Mutex
