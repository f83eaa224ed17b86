"""Models in the folders of Gabbro, the Hub, Ollama and LM Studio, for tests that find and remove them."""
import hashlib
import json
import pathlib

from pull_support import PullTest
from support import TINY_F16, TINY_Q8_0

MODEL = pathlib.Path(TINY_Q8_0).read_bytes()
OTHER = pathlib.Path(TINY_F16).read_bytes()


class ModelsTest(PullTest):
    def listed(self):
        models = json.loads(self.run_gabbro("list", "--json").text)["models"]
        return {m["name"]: m for m in models}

    def put(self, path, data):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def ollama(self, name, data, media_type="application/vnd.ollama.image.model", digest=None):
        digest = digest or "sha256:" + hashlib.sha256(data).hexdigest()
        self.put(f".ollama/models/blobs/sha256-{hashlib.sha256(data).hexdigest()}", data)
        layers = [{"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64, "size": 1},
                  {"mediaType": media_type, "digest": digest, "size": len(data)}]
        return self.put(f".ollama/models/manifests/{name}", json.dumps({"schemaVersion": 2, "layers": layers}))

    def opens(self, name, data):
        """`inspect` reads this model, which is the one in the file of these bytes."""
        document = json.loads(self.run_gabbro("inspect", name, "--json").text)
        self.assertEqual(pathlib.Path(document["path"]).read_bytes(), data)

    def refuses(self, *arguments, says):
        return self.fails(2, *arguments, says=says, environment=self.environment)
