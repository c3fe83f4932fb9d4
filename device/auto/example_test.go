package auto_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
)

// Open the best device. If it is not a GPU, the reasons say why.
func ExampleOpen() {
	dev, reasons, err := auto.Open("auto")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	for _, r := range reasons {
		log.Print(r) // such as a missing library, or no GPU
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

// Open a device by name, for example from a flag.
func ExampleOpen_choice() {
	dev, _, err := auto.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Println(dev.Properties().Kind)
	// Output: cpu
}
