from tests.fake_http import JUMP as JUMP
