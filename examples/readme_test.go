package examples

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

// The example of README.md, word for word: TestReadme compares them.
func Example() {
	ctx := context.Background()
	dev, _, err := auto.Open("auto") // the GPU with the most free memory, or else the CPU
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	sums, err := linear.New[int64, int64](dev, nil) // grows by itself
	if err != nil {
		log.Fatal(err)
	}
	defer sums.Close()

	// SELECT customer, SUM(cents) … GROUP BY customer: every key is legal.
	customer := []int64{7, 42, 7, -1, 42, 7}
	cents := []int64{500, 1999, 250, 80, 1, 1}
	groups, err := sums.Reduce(ctx, customer, cents, weft.Sum)
	if err != nil {
		log.Fatal(err)
	}

	total, found := make([]int64, 2), make([]bool, 2)
	hits, err := sums.Get(ctx, []int64{42, 8}, total, found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(groups, hits, total, found)
	// Output: 3 1 [2000 0] [true false]
}

// Example is what the README shows.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	body := regexp.MustCompile(`(?s)\nfunc Example\(\) \{\n(.*?)\n\}\n`).FindSubmatch(source)
	if block == nil || body == nil {
		t.Fatal("no block of Go in README.md, or no Example here")
	}
	want := strings.ReplaceAll("\n"+string(body[1]), "\n\t", "\n")
	if got := "\n" + strings.TrimSpace(string(block[1])); got != want {
		t.Errorf("README.md shows:%s\n\nbut Example is:%s", got, want)
	}
}

// Every file that a document at the root points to is there.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	link := regexp.MustCompile(`\]\(([^)#]+)`)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			target := string(m[1])
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat("../" + target); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
