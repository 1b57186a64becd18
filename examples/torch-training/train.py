"""One step on the GPU in bf16."""

import torch

model = torch.nn.Linear(1024, 1024, device="cuda", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
loss = model(torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)).square().mean()
loss.backward()
optimizer.step()
print(f"loss {loss.item():.4f} on {torch.cuda.get_device_name()}")
