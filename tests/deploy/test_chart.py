"""The Helm chart of deploy/: rendered by Helm's own code, and each object checked against the schemas of Kubernetes."""
import pathlib
import unittest

import helm_python
import kubernetes_validate
import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "helm" / "gabbro"
VERSIONS = ("1.29", "1.33", "1.37")
# Kinds of operators, which Kubernetes has no schemas of.
FOREIGN = {"PodMonitor"}

GPUS = {
    "models": ["llama-3.1-70b-instruct-q4_k_m"], "gpu": {"count": 2, "resource": "nvidia.com/gpu", "split": "tensor"},
    "keysSecret": "gabbro-keys", "autoscaling": {"enabled": True, "maxReplicas": 6}, "podMonitor": {"enabled": True},
    "modelsVolume": {"size": "200Gi", "storageClass": "fast"}, "nodeSelector": {"gpu": "h200"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}], "arguments": ["--parallel", "8"], "supplementalGroups": [44, 109],
}


def rendered(values):
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="demo", namespace="prod")
    objects = [document for text in files.values() for document in yaml.safe_load_all(text) if document]
    return {document["kind"]: document for document in objects}


class Chart(unittest.TestCase):
    def check(self, objects):
        for kind, document in objects.items():
            if kind not in FOREIGN:
                for version in VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)

    def container(self, objects):
        return objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]

    def test_defaults(self):
        objects = rendered({})
        self.check(objects)
        self.assertEqual(set(objects), {"Deployment", "Service", "PodDisruptionBudget"})
        self.assertEqual(objects["Deployment"]["spec"]["replicas"], 1)
        self.assertIn("--no-auth", self.container(objects)["args"])
        self.assertNotIn("--devices", self.container(objects)["args"])

    def test_gpus_autoscaling_and_keys(self):
        objects = rendered(GPUS)
        self.check(objects)
        self.assertEqual(set(objects), {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "PodMonitor",
                                        "PersistentVolumeClaim"})
        container = self.container(objects)
        self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], 2)
        words = container["args"]
        for pair in (("--devices", "all"), ("--split", "tensor"), ("--keys", "/run/secrets/gabbro/keys"), ("--parallel", "8"),
                     ("--drain", "300")):
            self.assertEqual(words[words.index(pair[0]) + 1], pair[1])
        hosts = [value for option, value in zip(words, words[1:]) if option == "--allowed-hosts"]
        self.assertIn("demo-gabbro.prod.svc", hosts)
        self.assertNotIn("replicas", objects["Deployment"]["spec"])  # the autoscaler's
        metric = objects["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]
        self.assertEqual(metric["metric"]["name"], "gabbro_requests_waiting")
        self.assertEqual(objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"],
                         objects["Deployment"]["metadata"]["name"])

    def test_probes_and_the_end(self):
        objects = rendered({"probes": {"startupSeconds": 601, "periodSeconds": 3}, "drainSeconds": 120})
        container = self.container(objects)
        self.assertEqual(container["startupProbe"]["failureThreshold"], 61)
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/ready")
        self.assertEqual(container["livenessProbe"]["httpGet"]["path"], "/health")
        pod = objects["Deployment"]["spec"]["template"]["spec"]
        self.assertGreater(pod["terminationGracePeriodSeconds"], 120)
        self.assertTrue(any(volume.get("emptyDir", {}).get("medium") == "Memory" for volume in pod["volumes"]))

    def test_names_meet(self):
        objects = rendered(GPUS)
        pod = objects["Deployment"]["spec"]["template"]
        for selector in (objects["Service"]["spec"]["selector"], objects["Deployment"]["spec"]["selector"]["matchLabels"],
                         objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
            self.assertLessEqual(selector.items(), pod["metadata"]["labels"].items())
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        self.assertEqual({mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}, volumes)
        claim = next(v for v in pod["spec"]["volumes"] if v["name"] == "models")["persistentVolumeClaim"]["claimName"]
        self.assertEqual(claim, objects["PersistentVolumeClaim"]["metadata"]["name"])

    def test_wrong_values_are_refused(self):
        for values in ({"gpu": {"count": -1}}, {"gpu": {"resource": "intel.com/gpu"}}, {"gpus": 2}, {"models": "one"},
                       {"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 2}}):
            with self.subTest(values=values), self.assertRaises(helm_python.HelmError):
                rendered(values)


if __name__ == "__main__":
    unittest.main()
