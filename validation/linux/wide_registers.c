/* User-Mode Linux up to 6.12 keeps 2.7 kB of a process' floating point registers; a host with AMX has 11 kB and refuses to take
 * back less than it has. Preloaded into the UML binary (it is dynamically linked), this widens both calls: the part UML knows is
 * its own, the rest is what the process has. Built and preloaded by run.py where the kernel does not boot without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

static char whole[1 << 16] __attribute__((aligned(64)));

long ptrace(enum __ptrace_request request, ...)
{
	static long (*real)(enum __ptrace_request, ...);
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!real)
		real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	if ((request != PTRACE_GETREGSET && request != PTRACE_SETREGSET) || (unsigned long)address != NT_X86_XSTATE)
		return real(request, pid, address, data);

	struct iovec *part = data, all = { whole, sizeof(whole) };
	long result = real(PTRACE_GETREGSET, pid, address, &all);
	if (result < 0)
		return result;
	size_t known = part->iov_len < all.iov_len ? part->iov_len : all.iov_len;
	if (request == PTRACE_GETREGSET) {
		memcpy(part->iov_base, whole, known);
		part->iov_len = known;
		return 0;
	}
	memcpy(whole, part->iov_base, known);
	return real(PTRACE_SETREGSET, pid, address, &all);
}
