"""The memory of a program that a test starts."""

# Put before its text. VmHWM is of that program alone; what getrusage counts starts at what its parent has.
HIGHEST = """
def highest():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""
