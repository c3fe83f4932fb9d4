package main

import (
	"flag"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/spf13/pflag"

	"github.com/weftgo/weft/internal/table/flags"
)

// beamOptions holds the flags of the runner, including flags that Beam defines.
type beamOptions struct {
	runner string
	temp   string // --temp-location
}

// inProcess is the runner that runs in this process and needs no service.
const inProcess = "prism"

var (
	runners = []string{inProcess, "flink", "spark", "dataflow", "universal"}

	// listed maps the flags of Beam that --help lists to their descriptions.
	listed = map[string]string{
		"endpoint":           "address of the job service of flink, spark and universal",
		"environment_type":   "how workers start: DOCKER, PROCESS, EXTERNAL or LOOPBACK",
		"environment_config": "image, command or address of the environment",
		"worker_binary":      "program of the workers",
		"job_name":           "name of the job",
		"parallelism":        "parallelism on Flink; -1: the setting of the cluster",
		"resource_hints":     "resource hints of the pipeline, as URN=VALUE",
		"experiments":        "experiments of the runner, separated by commas",
		"project":            "Google Cloud project of dataflow",
		"region":             "Google Cloud region of dataflow",
		"staging_location":   "Cloud Storage folder of dataflow for programs and files",
	}

	// withheld lists the flags of Beam that this command does not offer: flags of workers, and
	// flags that end the command before its job.
	withheld = []string{"runner", "worker", "id", "logging_endpoint", "control_endpoint",
		"semi_persist_dir", "options", "async", "execute_async", "dry_run", "update",
		"template_location"}
)

func (o *beamOptions) add(set *pflag.FlagSet) {
	set.StringVar(&o.runner, "runner", inProcess, "runner: "+strings.Join(runners, ", "))
	set.Var(
		flags.Name(&o.temp),
		"temp-location",
		"`FOLDER` for the result, which workers and this machine can open; default: a local folder",
	)
	flag.VisitAll(func(f *flag.Flag) {
		if slices.Contains(withheld, f.Name) || set.Lookup(f.Name) != nil {
			return
		}
		set.AddGoFlag(f)
		usage, ok := listed[f.Name]
		if ok {
			set.Lookup(f.Name).Usage = usage
		}
		set.Lookup(f.Name).Hidden = !ok
	})
}

// check returns an error for an unknown runner, or if a required flag is missing. printed states
// that the result is printed, for which remote workers need --temp-location.
func (o *beamOptions) check(verb string, printed bool) error {
	local := o.runner == inProcess || strings.EqualFold(*jobopts.EnvironmentType, "loopback")
	switch {
	case !slices.Contains(runners, o.runner):
		return usage("%s --runner %.40q: want %s", verb, o.runner, strings.Join(runners, ", "))
	case o.runner != inProcess && o.runner != "dataflow" && *jobopts.Endpoint == "":
		return usage("%s --runner %s: needs --endpoint, the address of its job service", verb,
			o.runner)
	case printed && o.temp == "" && !local:
		return usage("%s: needs --temp-location, a folder for the result that workers and this "+
			"machine can open; or write the result with --parquet", verb)
	}
	return nil
}
