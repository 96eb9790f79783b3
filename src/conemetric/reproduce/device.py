"""Large data sets go to the GPU where there is one."""

GPU_FROM = 1 << 20  # numbers; below, starting a kernel takes longer than its work


def on_device(X):
    """X on the GPU, when it is large and PyTorch finds one."""
    try:
        import torch
    except ImportError:
        return X
    return (
        torch.as_tensor(X, device="cuda") if X.size >= GPU_FROM and torch.cuda.is_available() else X
    )
