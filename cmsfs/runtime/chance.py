"""Random numbers, secrets and ids."""

import random
import secrets
import uuid

token_bytes, token_hex, token_urlsafe = secrets.token_bytes, secrets.token_hex, secrets.token_urlsafe
randbelow = secrets.randbelow
uniform = random.uniform
uuid4 = uuid.uuid4
