// Package reload takes a policy file up again whenever it changes, while the
// scheduler runs. A file that is bad, empty, half written or gone changes nothing,
// and whoever asked is told why.
//
//	go reload.Policy(ctx, "/etc/turnstile/policy.yaml", "", s, reload.Options{})
//
// Floor 2. It blocks its caller and starts no goroutine; its timer is the clock's.
//
// # Looking rather than being told
//
// The file is read again at an interval. To be told of changes by the operating
// system (inotify and its like) would be quicker by a second or two, and fails in
// just the places where policies live: network file systems do not tell of what
// other machines wrote; a Kubernetes ConfigMap is swapped by a symbolic link two
// levels up, editors write a new file and rename it, so that the directory and
// not the file must be watched, and the watch set up again when that is replaced;
// and a change is told while it is being written, so that one has to wait and look
// anyway. Reading a few kilobytes every other second costs nothing that could be
// measured, is the same everywhere, and can be tested on a virtual clock.
//
// What a file holds counts only once two looks in a row have found the same: what
// is still being written is left alone. So a change is in force after one to two
// intervals.
package reload
