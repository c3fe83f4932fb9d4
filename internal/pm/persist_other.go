//go:build !amd64 && !arm64

package pm

import "runtime"

func instructionsOfCPU() instructions {
	return instructions{name: "the instructions for it are not known for " + runtime.GOARCH}
}
