# What gdb must know of Fusee: tasks lie at the same addresses, so which symbols are right depends on the address space.
# `cargo xtask gdb` sets FUSEE_KERNEL and FUSEE_TASKS before it sources this file.
import gdb

TASK_BASE = 0x200000
# Addresses from here on are the kernel's, which may have functions of the same name.
TASK_END = 1 << 39


class Tasks:
    shown = None


def running():
    """The task whose address space this CPU has, and whether it is the task itself that runs."""
    # Its number is in the upper 16 bits; gdb may take the register to be signed.
    number = int(gdb.parse_and_eval("$TTBR0_EL1")) >> 48 & 0xffff
    names = list(FUSEE_TASKS)
    name = names[number - 1] if 1 <= number <= len(names) else None
    # The exception level.
    return name, int(gdb.parse_and_eval("$cpsr")) >> 2 & 3 == 0


def show(name):
    """Makes the symbols of a task those of its addresses."""
    if name == Tasks.shown:
        return
    if Tasks.shown is not None:
        gdb.execute("remove-symbol-file -a %#x" % TASK_BASE, to_string=True)
    Tasks.shown = None
    gdb.execute("add-symbol-file %s %#x" % (FUSEE_TASKS[name], TASK_BASE), to_string=True)
    Tasks.shown = name


def known(name):
    if name not in FUSEE_TASKS:
        raise gdb.GdbError("there is no task `%s`; there are %s" % (name, ", ".join(FUSEE_TASKS)))
    return name


class Task(gdb.Command):
    """task NAME: use the symbols of this task. Without a name: which task each CPU runs.
When the system stops in a task, its symbols are used without being asked for."""

    def __init__(self):
        super().__init__("task", gdb.COMMAND_FILES)

    def invoke(self, argument, from_tty):
        if argument:
            show(known(argument.strip()))
            return
        chosen = gdb.selected_thread()
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            thread.switch()
            name, in_task = running()
            if name:
                print("CPU thread %d: `%s`%s" % (thread.num, name, "" if in_task else ", in the kernel"))
        chosen.switch()

    def complete(self, text, word):
        return [name for name in FUSEE_TASKS if name.startswith(word)]


class Stop(gdb.Breakpoint):
    """A breakpoint for one task."""

    def __init__(self, address, name):
        super().__init__("*%#x" % address)
        self.name = name

    def stop(self):
        return running() == (self.name, True)


def line_of(location):
    """The file and the number in FILE:LINE; None for other locations."""
    name, _, number = location.rpartition(":")
    return (name, int(number)) if name and number.isdigit() else None


def places_of(name, location):
    """Where a location is in the program of a task. `main` is the function that `fusee::entry!` names."""
    if location == "main":
        program = FUSEE_TASKS[name].rpartition("/")[2]
        location = program.replace("-", "_") + "::main"
    try:
        _, places = gdb.decode_line(location)
    except gdb.error as error:
        hint = "" if "/debug/" in FUSEE_TASKS[name] else "; with `cargo xtask gdb --debug` no function is optimised away"
        raise gdb.GdbError("%s%s" % (error, hint))
    places = [place for place in places or [] if place.pc < TASK_END]
    wanted, found = line_of(location), sorted({place.line for place in places})
    if wanted and found and wanted[1] not in found:
        print("line %d has no code; the next that has some: %s" % (wanted[1], ", ".join(map(str, found))))
    return sorted({place.pc for place in places})


class TaskBreak(gdb.Command):
    """task-break NAME LOCATION: stop where this task, and no other, comes to that line or function."""

    def __init__(self):
        super().__init__("task-break", gdb.COMMAND_BREAKPOINTS)

    def invoke(self, argument, from_tty):
        name, _, location = argument.partition(" ")
        show(known(name))
        # By address: other symbols may be shown when it is come to.
        for address in places_of(name, location.strip()):
            Stop(address, name)


def stopped(event):
    name, in_task = running()
    if in_task and name:
        show(name)


gdb.execute("set confirm off")
gdb.execute("set pagination off")
gdb.execute("set architecture aarch64", to_string=True)
gdb.execute("file %s" % FUSEE_KERNEL, to_string=True)
Task()
TaskBreak()
gdb.events.stop.connect(stopped)
