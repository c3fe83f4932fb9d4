package cuda

// symbol identifies a driver function. It is an index in driver.addr.
type symbol int

// These are the driver functions that this package calls.
const (
	symInit symbol = iota
	symDriverGetVersion
	symGetErrorName
	symGetErrorString
	symDeviceGetCount
	symDeviceGet
	symDeviceGetName
	symDeviceGetAttribute
	symPrimaryCtxRetain
	symPrimaryCtxRelease
	symCtxSetCurrent
	symMemGetInfo
	symMemAlloc
	symMemFree
	symMemFreeAsync
	symMemHostAlloc
	symMemFreeHost
	symMemHostRegister
	symMemHostUnregister
	symMemHostGetDevicePointer
	symPointerGetAttribute
	symMemGetAllocationGranularity
	symMemAddressReserve
	symMemAddressFree
	symMemCreate
	symMemRelease
	symMemMap
	symMemUnmap
	symMemSetAccess
	symMemcpyHtoDAsync
	symMemcpyDtoHAsync
	symMemcpyDtoDAsync
	symMemcpyPeerAsync
	symDeviceCanAccessPeer
	symCtxEnablePeerAccess
	symMemsetD32Async
	symModuleLoadDataEx
	symModuleUnload
	symModuleGetFunction
	symFuncGetParamInfo
	symLaunchKernel
	symStreamCreate
	symStreamDestroy
	symStreamQuery
	symStreamSynchronize
	symStreamWaitEvent
	symEventCreate
	symEventDestroy
	symEventRecord
	symEventQuery
	symEventElapsedTime
	numSymbols
)

// baseVersion is the version of the driver interface that weft requests, CUDA 12.0. The functions
// are older, so older drivers are likely to work too.
const baseVersion = 12000

// symbolInfo describes how to look up a driver function.
type symbolInfo struct {
	// name is the function's name for cuGetProcAddress and in errors.
	name string
	// exported is the name in the library, which drivers without cuGetProcAddress need. It has a
	// suffix for later versions of a function. If empty, it equals name.
	exported string
	// since is the CUDA version (1000*major + 10*minor) that introduced the function, if later than
	// baseVersion. Such a function is optional.
	since int
}

func (s symbolInfo) optional() bool { return s.since > baseVersion }

func (s symbolInfo) version() int { return max(s.since, baseVersion) }

func (s symbolInfo) export() string {
	if s.exported != "" {
		return s.exported
	}
	return s.name
}

var symbols = [numSymbols]symbolInfo{
	symInit:                        {name: "cuInit"},
	symDriverGetVersion:            {name: "cuDriverGetVersion"},
	symGetErrorName:                {name: "cuGetErrorName"},
	symGetErrorString:              {name: "cuGetErrorString"},
	symDeviceGetCount:              {name: "cuDeviceGetCount"},
	symDeviceGet:                   {name: "cuDeviceGet"},
	symDeviceGetName:               {name: "cuDeviceGetName"},
	symDeviceGetAttribute:          {name: "cuDeviceGetAttribute"},
	symPrimaryCtxRetain:            {name: "cuDevicePrimaryCtxRetain"},
	symPrimaryCtxRelease:           {name: "cuDevicePrimaryCtxRelease", exported: "cuDevicePrimaryCtxRelease_v2"},
	symCtxSetCurrent:               {name: "cuCtxSetCurrent"},
	symMemGetInfo:                  {name: "cuMemGetInfo", exported: "cuMemGetInfo_v2"},
	symMemAlloc:                    {name: "cuMemAlloc", exported: "cuMemAlloc_v2"},
	symMemFree:                     {name: "cuMemFree", exported: "cuMemFree_v2"},
	symMemHostAlloc:                {name: "cuMemHostAlloc"},
	symMemFreeAsync:                {name: "cuMemFreeAsync"},
	symMemFreeHost:                 {name: "cuMemFreeHost"},
	symMemHostRegister:             {name: "cuMemHostRegister", exported: "cuMemHostRegister_v2"},
	symMemHostUnregister:           {name: "cuMemHostUnregister"},
	symMemHostGetDevicePointer:     {name: "cuMemHostGetDevicePointer", exported: "cuMemHostGetDevicePointer_v2"},
	symPointerGetAttribute:         {name: "cuPointerGetAttribute"},
	symMemGetAllocationGranularity: {name: "cuMemGetAllocationGranularity"},
	symMemAddressReserve:           {name: "cuMemAddressReserve"},
	symMemAddressFree:              {name: "cuMemAddressFree"},
	symMemCreate:                   {name: "cuMemCreate"},
	symMemRelease:                  {name: "cuMemRelease"},
	symMemMap:                      {name: "cuMemMap"},
	symMemUnmap:                    {name: "cuMemUnmap"},
	symMemSetAccess:                {name: "cuMemSetAccess"},
	symMemcpyHtoDAsync:             {name: "cuMemcpyHtoDAsync", exported: "cuMemcpyHtoDAsync_v2"},
	symMemcpyDtoHAsync:             {name: "cuMemcpyDtoHAsync", exported: "cuMemcpyDtoHAsync_v2"},
	symMemcpyDtoDAsync:             {name: "cuMemcpyDtoDAsync", exported: "cuMemcpyDtoDAsync_v2"},
	symMemcpyPeerAsync:             {name: "cuMemcpyPeerAsync"},
	symDeviceCanAccessPeer:         {name: "cuDeviceCanAccessPeer"},
	symCtxEnablePeerAccess:         {name: "cuCtxEnablePeerAccess"},
	symMemsetD32Async:              {name: "cuMemsetD32Async"},
	symModuleLoadDataEx:            {name: "cuModuleLoadDataEx"},
	symModuleUnload:                {name: "cuModuleUnload"},
	symModuleGetFunction:           {name: "cuModuleGetFunction"},
	symFuncGetParamInfo:            {name: "cuFuncGetParamInfo", since: 12040},
	symLaunchKernel:                {name: "cuLaunchKernel"},
	symStreamCreate:                {name: "cuStreamCreate"},
	symStreamDestroy:               {name: "cuStreamDestroy", exported: "cuStreamDestroy_v2"},
	symStreamQuery:                 {name: "cuStreamQuery"},
	symStreamSynchronize:           {name: "cuStreamSynchronize"},
	symStreamWaitEvent:             {name: "cuStreamWaitEvent"},
	symEventCreate:                 {name: "cuEventCreate"},
	symEventDestroy:                {name: "cuEventDestroy", exported: "cuEventDestroy_v2"},
	symEventRecord:                 {name: "cuEventRecord"},
	symEventQuery:                  {name: "cuEventQuery"},
	symEventElapsedTime:            {name: "cuEventElapsedTime"},
}

func (s symbol) String() string { return symbols[s].name }

// These are flags and attributes from the documentation of the driver interface.
const (
	memHostPortable      = 1 // CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTREGISTER_PORTABLE
	memHostDeviceMap     = 2 // CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTREGISTER_DEVICEMAP
	memTypePinned        = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	memLocationDevice    = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	memAccessReadWrite   = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	granularityMinimum   = 0 // CU_MEM_ALLOC_GRANULARITY_MINIMUM
	streamNonBlocking    = 1 // CU_STREAM_NON_BLOCKING: no ordering with the legacy stream
	eventDefault         = 0 // CU_EVENT_DEFAULT
	eventDisableTiming   = 2 // CU_EVENT_DISABLE_TIMING
	pointerMemoryType    = 2 // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
	pointerDeviceOrdinal = 9 // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	memoryTypeHost       = 1 // CU_MEMORYTYPE_HOST
	attrMultiprocessors  = 16
	attrL2CacheSize      = 38
	attrCapabilityMajor  = 75
	attrCapabilityMinor  = 76
	jitErrorLogBuffer    = 5
	jitErrorLogSizeBytes = 6
)
