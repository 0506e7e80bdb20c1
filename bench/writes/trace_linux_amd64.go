package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"
)

const (
	lineSize = 64
	// stackReach is how far from where it stood the stack pointer is while the
	// operation itself runs; beyond, the runtime schedules goroutines.
	stackReach = 64 << 10
	trap       = 0xCC
	// patience is how long all may take.
	patience = 5 * time.Minute
)

// writes are the stores of one operation of one caller.
type writes struct {
	steps  int
	locked int
	// lines has, by cache line, the addresses of the instructions that wrote it.
	lines map[uint64][]uint64
	// lockedLines are those that a locked instruction wrote.
	lockedLines map[uint64]bool
}

// trace runs the traced process and returns what each operation of each caller
// wrote, in their order; nil for those of which needless, asked before each, says that
// they tell nothing new: to step through one takes long. It must be called from a locked
// thread.
func trace(self string, needless func(before []*writes) bool) (all []*writes, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self)
	// Moves of memory by AVX cannot be decoded, and a goroutine is not to be put
	// aside while it is stepped through.
	cmd.Env = append(os.Environ(), tracedEnv+"=1", "GODEBUG=asyncpreemptoff=1,cpu.avx=off,cpu.avx2=off")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// A wait for the traced process has no deadline of its own.
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	defer func() {
		_ = cmd.Process.Kill() // no harm where it has ended
	}()
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		return nil, err
	}
	if err := unix.PtraceSetOptions(cmd.Process.Pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return nil, err
	}
	if err := unix.PtraceCont(cmd.Process.Pid, 0); err != nil {
		return nil, err
	}
	seen := code{}
	behind := false // the next breakpoint is that after an operation
	for {
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return all, nil
		case err != nil:
			return nil, err
		case status.Exited() || status.Signaled():
			if tid == cmd.Process.Pid {
				if status.Signaled() {
					return nil, fmt.Errorf("the traced process was ended by %v after %d operations", status.Signal(), len(all))
				}
				if status.ExitStatus() != 0 {
					return nil, fmt.Errorf("the traced process ended with %d", status.ExitStatus())
				}
				return all, nil
			}
			continue
		case !status.Stopped():
			continue
		}
		if status.StopSignal() == unix.SIGTRAP && status.TrapCause() == 0 {
			var here [1]byte
			var regs unix.PtraceRegs
			if err := unix.PtraceGetRegs(tid, &regs); err != nil {
				return nil, err
			}
			if _, err := unix.PtracePeekText(tid, uintptr(regs.Rip)-1, here[:]); err != nil {
				return nil, err
			}
			switch {
			case here[0] != trap:
			case behind:
				behind = false
			case needless(all):
				all = append(all, nil)
				behind = true
			default:
				w, err := step(tid, seen)
				if err != nil {
					return nil, err
				}
				all = append(all, w)
			}
		}
		if err := goOn(tid, status); err != nil {
			return nil, err
		}
	}
}

// code is what the traced process executes, by address: it never changes, and each
// look at it is a call of the system.
type code map[uint64][16]byte

func (c code) at(tid int, pc uint64) ([16]byte, error) {
	text, ok := c[pc]
	if ok {
		return text, nil
	}
	_, err := unix.PtracePeekText(tid, uintptr(pc), text[:])
	c[pc] = text
	return text, err
}

// step runs an operation instruction by instruction, up to the breakpoint after it,
// and behind that.
func step(tid int, seen code) (*writes, error) {
	w := &writes{lines: map[uint64][]uint64{}, lockedLines: map[uint64]bool{}}
	var regs unix.PtraceRegs
	var began uint64
	for {
		if err := unix.PtraceGetRegs(tid, &regs); err != nil {
			return nil, err
		}
		if began == 0 {
			began = regs.Rsp
		}
		text, err := seen.at(tid, regs.Rip)
		if err != nil {
			return nil, err
		}
		if text[0] == trap {
			regs.Rip++
			return w, unix.PtraceSetRegs(tid, &regs)
		}
		if regs.Rsp > began-stackReach && regs.Rsp < began+stackReach {
			if err := w.note(text[:], &regs); err != nil {
				return nil, err
			}
		}
		if err := unix.PtraceSingleStep(tid); err != nil {
			return nil, err
		}
		status, err := stopOf(tid)
		if err != nil {
			return nil, err
		}
		if !status.Stopped() || status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGURG {
			return nil, fmt.Errorf("a step ended with %v", status)
		}
	}
}

// stopOf waits until a thread stops. Others that stop meanwhile, for a signal or
// because they are new, go on: what is stepped through may wait for them.
func stopOf(tid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || got == tid:
			return status, err
		case !status.Stopped():
			continue
		}
		if err := goOn(got, status); err != nil {
			return status, err
		}
	}
}

// goOn has a thread go on that stopped outside an operation, with its signal.
func goOn(tid int, status unix.WaitStatus) error {
	signal := status.StopSignal()
	if signal == unix.SIGTRAP || signal == unix.SIGSTOP {
		signal = 0 // a breakpoint behind us, or a new thread
	}
	if err := unix.PtraceCont(tid, int(signal)); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// reads are the instructions that do not write an operand in memory though it
// comes first.
var reads = map[x86asm.Op]bool{
	x86asm.CMP: true, x86asm.TEST: true, x86asm.PUSH: true, x86asm.CALL: true, x86asm.JMP: true, x86asm.NOP: true, x86asm.BT: true,
	x86asm.PREFETCHNTA: true, x86asm.PREFETCHT0: true, x86asm.PREFETCHT1: true, x86asm.PREFETCHT2: true, x86asm.PREFETCHW: true,
	x86asm.MUL: true, x86asm.DIV: true, x86asm.IMUL: true, x86asm.IDIV: true, x86asm.LEA: true, x86asm.UCOMISS: true, x86asm.UCOMISD: true,
}

// note gathers what the instruction at hand writes.
func (w *writes) note(text []byte, regs *unix.PtraceRegs) error {
	w.steps++
	inst, err := x86asm.Decode(text, 64)
	if err != nil {
		return fmt.Errorf("%x at %s cannot be decoded: %w", text, place(regs.Rip), err)
	}
	locked := false
	for _, p := range inst.Prefix {
		locked = locked || p&0xFF == x86asm.PrefixLOCK&0xFF && p != 0
	}
	for i, arg := range inst.Args {
		mem, ok := arg.(x86asm.Mem)
		if !ok || i > 0 && inst.Op != x86asm.XCHG || reads[inst.Op] {
			continue
		}
		locked = locked || inst.Op == x86asm.XCHG
		at := uint64(mem.Disp)
		if mem.Base == x86asm.RIP {
			at += uint64(inst.Len)
		}
		at += register(regs, mem.Base) + uint64(mem.Scale)*register(regs, mem.Index)
		switch mem.Segment {
		case x86asm.FS:
			at += regs.Fs_base
		case x86asm.GS:
			at += regs.Gs_base
		default:
		}
		size := max(1, inst.MemBytes)
		for line := at / lineSize; line <= (at+uint64(size)-1)/lineSize; line++ {
			w.lines[line] = append(w.lines[line], regs.Rip)
			if locked {
				w.lockedLines[line] = true
			}
		}
		if locked {
			w.locked++
		}
		break
	}
	return nil
}

func register(regs *unix.PtraceRegs, r x86asm.Reg) uint64 {
	switch r {
	case x86asm.RAX:
		return regs.Rax
	case x86asm.RBX:
		return regs.Rbx
	case x86asm.RCX:
		return regs.Rcx
	case x86asm.RDX:
		return regs.Rdx
	case x86asm.RSI:
		return regs.Rsi
	case x86asm.RDI:
		return regs.Rdi
	case x86asm.RSP:
		return regs.Rsp
	case x86asm.RBP:
		return regs.Rbp
	case x86asm.R8:
		return regs.R8
	case x86asm.R9:
		return regs.R9
	case x86asm.R10:
		return regs.R10
	case x86asm.R11:
		return regs.R11
	case x86asm.R12:
		return regs.R12
	case x86asm.R13:
		return regs.R13
	case x86asm.R14:
		return regs.R14
	case x86asm.R15:
		return regs.R15
	case x86asm.RIP:
		return regs.Rip
	default:
		return 0
	}
}

// place names the function of an instruction; the traced process runs this very
// file.
func place(pc uint64) string {
	f := runtime.FuncForPC(uintptr(pc))
	if f == nil {
		return fmt.Sprintf("%#x", pc)
	}
	return f.Name()
}
