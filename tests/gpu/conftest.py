from tests.helpers.gpu import context, cuda_engine_factory, gpu, rig

__all__ = ["context", "cuda_engine_factory", "gpu", "rig"]
