package auto_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

// The best device that there is; the reasons say why it is no GPU, where it is none.
func ExampleOpen() {
	dev, reasons, err := auto.Open("auto")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	for _, r := range reasons {
		log.Print(r) // no such library, say, or no GPU
	}
	seen, err := linear.NewSet[int64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer seen.Close()
	distinct, err := seen.Add(context.Background(), []int64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(distinct)
	// Output: 7
}

// A device by name: of a flag, say.
func ExampleOpen_choice() {
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Properties().Kind)
	// Output: cpu
}
