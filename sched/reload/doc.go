// Package reload takes a policy file up again whenever it changes, while the scheduler
// runs. A file that is bad, empty, half written or gone changes nothing, and the caller
// receives the reason.
//
//	go reload.Policy(ctx, "/etc/turnstile/policy.yaml", "", s, reload.Options{})
//
// Floor 2. It blocks its caller and starts no goroutine; its timer is the clock's.
//
// # Polling, not notifications
//
// The file is read again at an interval. Notifications of the operating system (inotify
// and the like) would be quicker by a second or two, but they fail just where policies
// are: network file systems do not report what other machines wrote; a Kubernetes
// ConfigMap is replaced by a symbolic link two levels up, and editors write a new file
// and rename it, so that the directory and not the file must be watched, and the watch
// set up again when that is replaced; and a notification comes while the file is still
// being written, so that the reader has to wait and look anyway. Reading a few
// kilobytes every other second costs nothing that could be measured, is the same
// everywhere, and can be tested on a virtual clock.
//
// What a file holds counts only once two looks in a row have found the same: what
// is still being written is left alone. So a change is in force after one to two
// intervals.
package reload
