package sim

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every instruction in the module's PTX files is supported. Its form is one that is compared with
// hardware.
func TestShippedForms(t *testing.T) {
	compared := map[string]bool{}
	for _, f := range formKernels() {
		form, _, _ := strings.Cut(f.form, " ")
		compared[form] = true
	}
	control := strings.Fields("bra bra.uni brx.idx brx.idx.uni ret exit trap nanosleep.u32 prefetch.global.L2")
	files, used := 0, map[string][]string{} // form to files
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "testdata" { // compiled with debug information
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ptx" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		mod, err := parse(filepath.Base(path), string(text))
		if err != nil {
			t.Error(err)
			return nil
		}
		for _, k := range mod.kernels {
			for _, s := range k.body {
				if !slices.Contains(used[s.op], mod.name) {
					used[s.op] = append(used[s.op], mod.name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("there is no PTX file in the module")
	}
	var forms []string
	for form, in := range used {
		forms = append(forms, form)
		if _, _, err := match(form); err != nil {
			t.Errorf("%v: %v", in, err)
		} else if !compared[form] && !slices.Contains(control, form) {
			t.Errorf("%v: %s is not compared with hardware", in, form)
		}
	}
	slices.Sort(forms)
	t.Logf("%d forms in %d files: %s", len(forms), files, strings.Join(forms, " "))
}
