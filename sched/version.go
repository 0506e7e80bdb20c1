package sched

import (
	"runtime/debug"
	"sync"
)

// modulePath is the path of this module, by which builds record its version.
const modulePath = "github.com/seed-3c5df8a4/turnstile"

// version returns the version of this module that is built into the program, as the
// build recorded it. A constant would have to be changed with each release, and would
// name the last release in every build of what came after it.
var version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info)
})

// versionIn returns the version recorded in a build: "(devel)" for a build from a
// checkout, "unknown" if the build recorded nothing of this module.
func versionIn(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	if info.Main.Path == modulePath {
		return orDevel(info.Main.Version)
	}
	for _, m := range info.Deps {
		switch {
		case m.Path != modulePath:
		case m.Replace != nil:
			return orDevel(m.Replace.Version) // a fork's, or none for a directory
		default:
			return orDevel(m.Version)
		}
	}
	return "unknown"
}

func orDevel(version string) string {
	if version == "" {
		return "(devel)"
	}
	return version
}
