/* A small libcuda.so.1: one GPU whose memory is this process's, and which interprets the PTX that it
 * is given, thread by thread. It knows the instructions that the kernels of the burn-in have, and
 * ends the process at any other. The text of the environment variable FAKE_CUDA changes it:
 *
 *   memory=MIB         its memory, 4 otherwise
 *   held=MIB           of it, by another process
 *   gpus=0             none is visible
 *   stuck=BYTE:BIT     this bit of the memory is set whatever kernels write
 *   alias=BIT          an address line that has no effect: words whose number has the bit are those
 *                      whose number has not
 *   slip=BLOCK         products of this block of a grid with more than one known value are wrong
 *   wrong=1            all products are wrong by one bit
 *   transfer=1         copies to the machine lose a bit
 *   launch=CODE        the first launch ends with this error, as do all calls after it
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, ECC = 214 };
enum { MIB = 1 << 20, MOST = 96, KERNELS = 8, REGISTERS = 64, PARAMETERS = 8 };

typedef union { uint64_t u; uint32_t w; float f; } Value;
typedef enum { LD_PARAM, MOV, CVTA, MAD_LO, MAD_WIDE, MUL_LO, MUL_F, SUB_F, CVT_F, XOR, AND, ADD,
               SETP_GE, SETP_EQ, BRA, RET, ST, LD, RED_ADD, RED_MIN } Op;
typedef struct { int is_register, number; Value value; int offset; } Operand;
typedef struct { Op op; int predicate, count, target; Operand of[4]; char label[32]; } Instruction;
typedef struct { char name[32], parameters[PARAMETERS][32]; int wide[PARAMETERS];
                 int parameter_count, length; Instruction at[MOST]; } Kernel;

enum { TID = REGISTERS, NTID, CTAID, NCTAID };

static Kernel kernels[KERNELS];
static int kernel_count, broken;
static uint8_t *memory;
static uint64_t used;

static long option(const char *name, long otherwise) {
    const char *found = getenv("FAKE_CUDA") ? strstr(getenv("FAKE_CUDA"), name) : NULL;
    return found ? atol(found + strlen(name)) : otherwise;
}

static uint64_t size(void) { return (uint64_t)option("memory=", 4) * MIB; }

static uint64_t free_bytes(void) { return size() - used - (uint64_t)option("held=", 0) * MIB; }

static void stick(void) {
    const char *found = getenv("FAKE_CUDA") ? strstr(getenv("FAKE_CUDA"), "stuck=") : NULL;
    long byte, bit;
    if (found && sscanf(found, "stuck=%ld:%ld", &byte, &bit) == 2) memory[byte] |= 1 << bit;
}

static uint32_t *word(uint64_t address) {
    static long alias = -2;
    uint64_t at = (address - (uint64_t)memory) / 4;
    if (alias == -2) alias = option("alias=", -1);
    if (address < (uint64_t)memory || at * 4 + 4 > size()) abort();
    if (alias >= 0 && at * 4 >= MIB) at &= ~(1ull << alias);
    return (uint32_t *)memory + at;
}

/* Reading PTX. A register is a number: of the letter and the digits of its name. */

static int register_of(const char *text) {
    if (!strcmp(text, "%tid.x")) return TID;
    if (!strcmp(text, "%ntid.x")) return NTID;
    if (!strcmp(text, "%ctaid.x")) return CTAID;
    if (!strcmp(text, "%nctaid.x")) return NCTAID;
    int first = text[1] == 'r' ? 0 : text[1] == 'd' ? 16 : text[1] == 'f' ? 32 : 48;
    return first + atoi(text + 2);
}

static Operand operand(Kernel *kernel, char *text) {
    Operand made = {0};
    if (*text == '[') {
        char *plus = strchr(text, '+');
        text[strlen(text) - 1] = 0;
        if (plus) { made.offset = atoi(plus + 1); *plus = 0; }
        text++;
    }
    if (*text == '%') {
        made.is_register = 1;
        made.number = register_of(text);
        return made;
    }
    if (!strncmp(text, "0f", 2)) made.value.w = (uint32_t)strtoul(text + 2, NULL, 16);
    else if (*text >= '0' && *text <= '9') made.value.u = strtoull(text, NULL, 10);
    else for (made.number = 0; made.number < kernel->parameter_count; made.number++)
        if (!strcmp(kernel->parameters[made.number], text)) break;
    return made;
}

static Op op_of(const char *name) {
    static const struct { const char *name; Op op; } known[] = {
        {"ld.param.u64", LD_PARAM}, {"ld.param.u32", LD_PARAM}, {"mov.u32", MOV}, {"mov.b32", MOV},
        {"cvta.to.global.u64", CVTA}, {"mad.lo.u32", MAD_LO}, {"mad.wide.u32", MAD_WIDE},
        {"mul.lo.u32", MUL_LO}, {"mul.rn.f32", MUL_F}, {"sub.rn.f32", SUB_F},
        {"cvt.rn.f32.u32", CVT_F}, {"xor.b32", XOR}, {"and.b32", AND}, {"add.u32", ADD},
        {"setp.ge.u32", SETP_GE}, {"setp.eq.u32", SETP_EQ}, {"bra", BRA}, {"ret", RET},
        {"st.global.u32", ST}, {"ld.global.u32", LD}, {"red.global.add.u32", RED_ADD},
        {"red.global.min.u32", RED_MIN}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (!strcmp(known[n].name, name)) return known[n].op;
    fprintf(stderr, "an instruction that the fake GPU does not know: %s\n", name);
    exit(99);
}

static void read_parameters(Kernel *kernel, char *text) {
    for (char *at = text; (at = strstr(at, ".param .")); at++) {
        int bits, number = kernel->parameter_count++;
        sscanf(at, ".param .u%d %31[a-z]", &bits, kernel->parameters[number]);
        kernel->wide[number] = bits == 64;
    }
}

static void read_body(Kernel *kernel, char *body) {
    char labels[8][32];
    int label_at[8], label_count = 0;
    for (char *save, *line = strtok_r(body, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char name[32], rest[128] = "", *colon = strchr(line, ':');
        Instruction *made = &kernel->at[kernel->length];
        line += strspn(line, " ");
        if (!*line || *line == '.') continue;
        if (colon) {
            snprintf(labels[label_count], 32, "%.*s", (int)(colon - line), line);
            label_at[label_count++] = kernel->length;
            continue;
        }
        made->predicate = -1;
        if (*line == '@') { made->predicate = register_of(line + 1); line = strchr(line, ' ') + 1; }
        line[strcspn(line, ";")] = 0;
        sscanf(line, "%31s %127[^\n]", name, rest);
        made->op = op_of(name);
        kernel->length++;
        if (made->op == BRA) { strcpy(made->label, rest); continue; }
        for (char *inner, *one = strtok_r(rest, ", ", &inner); one; one = strtok_r(NULL, ", ", &inner))
            made->of[made->count++] = operand(kernel, one);
    }
    for (int n = 0; n < kernel->length; n++)
        for (int label = 0; label < label_count; label++)
            if (kernel->at[n].op == BRA && !strcmp(kernel->at[n].label, labels[label]))
                kernel->at[n].target = label_at[label];
}

/* Running it. */

static void run_thread(Kernel *kernel, void **parameters, Value *r, int slips) {
    for (int at = 0; at < kernel->length; at++) {
        Instruction *now = &kernel->at[at];
        if (now->predicate >= 0 && !r[now->predicate].u) continue;
        Value *to = &r[now->of[0].number], of[4];
        for (int n = 0; n < now->count; n++)
            of[n] = now->of[n].is_register ? r[now->of[n].number] : now->of[n].value;
        uint64_t address = of[now->op == LD].u + (uint64_t)now->of[now->op == LD].offset;
        switch (now->op) {
        case LD_PARAM:
            to->u = kernel->wide[now->of[1].number] ? *(uint64_t *)parameters[now->of[1].number]
                                                    : *(uint32_t *)parameters[now->of[1].number];
            break;
        case MOV: to->u = of[1].w; break;
        case CVTA: to->u = of[1].u; break;
        case MAD_LO: to->u = of[1].w * of[2].w + of[3].w; break;
        case MAD_WIDE: to->u = (uint64_t)of[1].w * of[2].w + of[3].u; break;
        case MUL_LO: to->u = of[1].w * of[2].w; break;
        case MUL_F: to->f = of[1].f * of[2].f; to->w ^= (uint32_t)slips; break;
        case SUB_F: to->f = of[1].f - of[2].f; break;
        case CVT_F: to->f = (float)of[1].w; break;
        case XOR: to->u = of[1].w ^ of[2].w; break;
        case AND: to->u = of[1].w & of[2].w; break;
        case ADD: to->u = of[1].w + of[2].w; break;
        case SETP_GE: to->u = of[1].w >= of[2].w; break;
        case SETP_EQ: to->u = of[1].w == of[2].w; break;
        case BRA: at = now->target - 1; break;
        case RET: return;
        case ST: *word(address) = of[1].w; break;
        case LD: to->u = *word(address); break;
        case RED_ADD: *word(address) += of[1].w; break;
        case RED_MIN: if (of[1].w < *word(address)) *word(address) = of[1].w; break;
        }
    }
}

int cuInit(unsigned flags) { (void)flags; return OK; }

int cuDeviceGetCount(int *count) { *count = (int)option("gpus=", 1); return OK; }

int cuDeviceGet(int *device, int number) { *device = number; return number ? NO_DEVICE : OK; }

int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 16 ? 1 : 0;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    memory = aligned_alloc(4096, size());
    *context = memory;
    return OK;
}

int cuCtxSetCurrent(void *context) { return context == memory ? OK : NO_DEVICE; }

int cuCtxSynchronize(void) { return broken; }

int cuMemGetInfo_v2(size_t *free_, size_t *total) {
    *free_ = free_bytes();
    *total = size();
    return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    uint64_t whole = (bytes + 255) & ~255ull;
    if (whole > free_bytes()) return OUT_OF_MEMORY;
    *address = (uint64_t)memory + used;
    used += whole;
    return OK;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    memcpy((void *)to, from, bytes);
    return broken;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    memcpy(to, (void *)from, bytes);
    if (option("transfer=", 0)) ((uint8_t *)to)[bytes / 2] ^= 1;
    return broken;
}

int cuModuleLoadData(void **module, const char *text) {
    char *ptx = strdup(text);
    for (char *at = ptx; (at = strstr(at, ".visible .entry ")); at++) {
        Kernel *kernel = &kernels[kernel_count++];
        char *open = strchr(at, '('), *close = strchr(open, ')');
        char *body = strchr(close, '{'), *end = strchr(body, '}');
        sscanf(at, ".visible .entry %31[a-z]", kernel->name);
        *close = *end = 0;
        read_parameters(kernel, open);
        read_body(kernel, body + 1);
        at = end;
    }
    *module = kernels;
    free(ptx);
    return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    for (int n = 0; n < kernel_count; n++)
        if (!strcmp(kernels[n].name, name)) { *function = &kernels[n]; return OK; }
    return NOT_FOUND;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, void *stream,
                   void **parameters, void **extra) {
    long slip = option("slip=", -1), wrong = option("wrong=", 0);
    (void)grid_y, (void)grid_z, (void)block_y, (void)block_z, (void)shared, (void)stream, (void)extra;
    broken = (int)option("launch=", 0);
    for (unsigned block = 0; block < grid_x && !broken; block++)
        for (unsigned thread = 0; thread < block_x; thread++) {
            Value registers[REGISTERS + 4] = {0};
            registers[TID].u = thread;
            registers[NTID].u = block_x;
            registers[CTAID].u = block;
            registers[NCTAID].u = grid_x;
            run_thread(function, parameters, registers, wrong || (long)block == slip);
        }
    stick();
    return OK;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == ECC ? "uncorrectable ECC error encountered" : "out of memory";
    return code == ECC || code == OUT_OF_MEMORY ? OK : 1;
}
