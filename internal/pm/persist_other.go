//go:build !amd64 && !arm64

package pm

import "runtime"

func instructionsOfCPU() instructions {
	return instructions{name: "which instructions do is not known of " + runtime.GOARCH}
}
