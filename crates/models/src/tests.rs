use super::*;
use sooner_engine::Role;
use sooner_plan::Plan;

fn parse(text: &str) -> ModelPlan {
    ModelPlan::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn model(text: &str, input: [usize; 3], classes: usize) -> Model {
    Model::new(&parse(text), input, classes).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn plan(name: &str) -> Plan {
    Plan::parse(workload(name).expect("built in").toml).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The network of a built-in workload.
fn built_in(name: &str) -> Model {
    let plan = plan(name);
    let facts = plan.data.expected_facts();
    Model::new(&plan.model, plan.pipeline.image_shape(facts.image), facts.classes)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// All trained parameters.
fn parameters(m: &Model) -> usize {
    m.vars().parameter_count()
}

/// Those of convolutions and linear layers, biases not counted.
fn weights(m: &Model) -> usize {
    m.vars().all().iter().filter(|v| v.role == Role::Weight).map(|v| v.shape.len()).sum()
}

/// Multiply-adds of one example's forward pass.
fn macs(m: &Model) -> u64 {
    m.flops_per_example().unwrap() / 6
}

/// Rounded to so many digits behind the point.
fn round(value: f64, digits: i32) -> f64 {
    (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

/// Parameters in millions with two digits and multiply-adds in millions with none, as tables give them.
fn check_table(name: &str, millions: f64, mmac: f64) {
    let m = built_in(name);
    // Published counts are of what convolutions and linear layers have; normalisation adds less than 0.2 %.
    assert_eq!(round(weights(&m) as f64 / 1e6, 2), millions, "{name}");
    assert_eq!(round(macs(&m) as f64 / 1e6, 0), mmac, "{name}");
}

#[test]
fn counts_of_the_table() {
    // As published.
    check_table("cifar10-dawn-resnet18", 5.20, 460.0);
    check_table("cifar10-dawn-redundant", 5.20, 460.0);
    check_table("cifar10-resnet9", 6.57, 379.0);
    check_table("cifar10-page-residual", 6.57, 379.0);
    check_table("cifar10-airbench94", 1.97, 118.0);
    check_table("cifar10-airbench95", 4.60, 302.0);
    check_table("cifar10-airbench96", 9.91, 452.0);
    // 69 million is He et al.'s own count, 0.46 million theirs too.
    check_table("cifar10-resnet32", 0.46, 69.0);
    let gflop = |name| built_in(name).flops_per_example().unwrap() as f64 / 1e9;
    let published = ["cifar10-dawn-resnet18", "cifar10-resnet9", "cifar10-airbench94", "cifar10-airbench95"];
    assert_eq!(published.map(|name| round(gflop(name), 2)), [2.76, 2.28, 0.71, 1.81]);
    assert_eq!(round(gflop("cifar10-airbench96"), 2), 2.71);
}

#[test]
fn counts_of_networks_for_large_images() {
    // Parameters as torchvision 0.15 documents them for its resnet50, vgg11 and vgg11_bn; multiply-adds likewise (4.09
    // and 7.61 thousand million).
    let m = model("kind = \"resnet50\"", [224, 224, 3], 1000);
    assert_eq!(parameters(&m), 25_557_032);
    assert_eq!(round(macs(&m) as f64 / 1e9, 2), 4.09);

    let vgg = |hidden: &str, more: &str| {
        format!(
            "kind = \"vgg11\"\nchannels = [64, 128, 256, 256, 512, 512, 512, 512]\nhidden = {hidden}\n{more}"
        )
    };
    let m = model(&vgg("[4096, 4096]", "dropout = 0.5"), [224, 224, 3], 1000);
    assert_eq!(parameters(&m), 132_863_336);
    assert_eq!(round(macs(&m) as f64 / 1e9, 2), 7.61);
    let m = model(&vgg("[4096, 4096]", "norm = {}"), [224, 224, 3], 1000);
    assert_eq!(parameters(&m), 132_868_840);
    // By hand, for images of 32 pixels.
    let m = model(&vgg("[512, 512]", ""), [32, 32, 3], 10);
    assert_eq!(parameters(&m), 9_220_480 + 2 * (512 * 512 + 512) + 5130);
    assert_eq!(round(macs(&m) as f64 / 1e6, 0), 153.0);
    assert_eq!(parameters(&built_in("cifar10-vgg11")), parameters(&m) + 5504);
}

#[test]
fn counts_of_small_networks() {
    let convs = 1024 * (27 * 16 + 2 * 144 * 16) + 256 * (144 + 288) * 32 + 64 * (288 + 576) * 64;
    let m = built_in("cifar10-resnet8");
    assert_eq!(macs(&m), (convs + 640) as u64);
    let kernels = 27 * 16 + 2 * 144 * 16 + (144 + 288) * 32 + (288 + 576) * 64 + 640;
    assert_eq!(parameters(&m), kernels + 3 * 16 + 2 * 32 + 2 * 64 + 10);

    // The base network's and its half's and double's: the paper gives the layers, not the counts.
    for (name, expect) in [
        ("mnist-cnn", 62_346),
        ("mnist-cnn-narrow", 18_378),
        ("mnist-cnn-wide", 227_082),
        ("fashion-cnn", 62_346),
    ] {
        assert_eq!(parameters(&built_in(name)), expect, "{name}");
    }
    for (sizes, expect) in [
        ("1024", 814_090),
        ("1024x2", 1_863_690),
        ("1024x3", 2_913_290),
        ("2048x3", 10_020_874),
        ("512x3", 932_362),
        ("256x3", 335_114),
        ("128x3", 134_794),
        ("64x3", 59_210),
    ] {
        let m = built_in(&format!("mnist-fc-{sizes}"));
        assert_eq!(parameters(&m), expect, "{sizes}");
        // Each weight is used once, and nothing else multiplies.
        assert_eq!(macs(&m), weights(&m) as u64, "{sizes}");
    }
    assert_eq!(parameters(&model("kind = \"softmax\"", [32, 32, 3], 10)), 30_730);
}

#[test]
fn counts_of_pages_backbones() {
    let norms = |channels: [usize; 4]| 2 * channels.iter().sum::<usize>();
    let narrow = [64, 128, 256, 256];
    let check = |name: &str, weights: usize, channels: [usize; 4], macs_in_thousands: u64| {
        let m = built_in(&format!("cifar10-page-{name}"));
        assert_eq!(parameters(&m), weights + norms(channels), "{name}");
        assert_eq!(macs(&m) / 1000, macs_in_thousands, "{name}");
    };
    let prep = 27 * 64;
    let squares = |taps: usize| taps * (64 * 128 + 128 * 256 + 256 * 256);
    // A stage's convolution works at half the stage's resolution with strides, at all of it with pooling.
    check("1x1", prep + squares(1) + 5120, narrow, 7_017);
    check("3x3", prep + squares(9) + 5120, narrow, 48_960);
    check("pool", prep + squares(9) + 5120, narrow, 190_518);
    let wide = [64, 128, 256, 512];
    let last = prep + 9 * (64 * 128 + 128 * 256 + 256 * 512) + 5120;
    check("max-head", last, wide, 228_267);
    check("scaled", last, wide, 228_267);
    let doubled = [128, 256, 512, 1024];
    check("wide", 2 * prep + 4 * (last - prep - 5120) + 2 * 5120, doubled, 909_518);
    let extra = 9 * (128 * 128 + 256 * 256 + 512 * 512);
    let m = built_in("cifar10-page-extra");
    assert_eq!(parameters(&m), last + extra + norms(wide) + 2 * (128 + 256 + 512));
    // From here on ResNet-9: pooling moves, activations and statistics change, and no count does.
    let resnet9 = built_in("cifar10-resnet9");
    for name in ["residual", "early-pool", "smoothing", "celu", "ghost"] {
        let m = built_in(&format!("cifar10-page-{name}"));
        assert_eq!((parameters(&m), macs(&m)), (parameters(&resnet9), macs(&resnet9)), "{name}");
    }
    let gains = 64 + 3 * 128 + 256 + 3 * 512;
    assert_eq!(parameters(&built_in("cifar10-page-fixed-gain")), parameters(&resnet9) - gains);
    // The preparation layer sees 27 whitened values, and only its 1x1 convolution is trained.
    let m = built_in("cifar10-page-whiten");
    assert_eq!(parameters(&m), parameters(&resnet9) - gains);
    assert_eq!(macs(&m), macs(&resnet9) + 1024 * 27 * 27);
}

/// Page (2018): without the first of two normalisations in a row there are fewer operations, and what the network has to
/// compute with is the same.
#[test]
fn the_redundant_norm_costs_operations_and_no_weights() {
    let mut plain = built_in("cifar10-dawn-resnet18");
    let mut redundant = built_in("cifar10-dawn-redundant");
    assert_eq!((weights(&plain), macs(&plain)), (weights(&redundant), macs(&redundant)));
    // Its own gains and biases go with it.
    assert_eq!(parameters(&redundant), parameters(&plain) + 2 * 64);
    let optimizer = plan("cifar10-dawn-resnet18").optimizer;
    let count = |m: &mut Model| m.update_program(2, &optimizer).unwrap().graph.nodes().len();
    let (fewer, more) = (count(&mut plain), count(&mut redundant));
    assert!(fewer < more, "{fewer} {more}");
    let norms = |m: &mut Model| {
        let graph = m.eval_program(1).unwrap().graph;
        graph.nodes().iter().filter(|n| matches!(n.op, Op::Normalize(_) | Op::Relu)).count()
    };
    assert_eq!(norms(&mut plain) + 2, norms(&mut redundant));
}

#[test]
fn programs_share_variables() {
    for name in ["cifar10-resnet9", "cifar10-page-whiten", "cifar10-airbench96"] {
        let plan = plan(name);
        let mut m = built_in(name).trained_by(&plan);
        let weights = m.vars().clone();
        let update = m.update_program(4, &plan.optimizer).unwrap();
        let last = m.update_program(3, &plan.optimizer).unwrap();
        let eval = m.eval_program(7).unwrap();
        assert_eq!(update.vars, last.vars);
        assert_eq!(eval.vars, update.vars);
        // The model's own variables come first, the optimiser's after them.
        assert_eq!(&update.vars.all()[..weights.all().len()], weights.all());
        assert!(update.vars.all()[weights.all().len()..].iter().all(|v| v.role == Role::Slot));
    }
}

#[test]
fn whitening_filters_are_fixed() {
    for (name, shape, negatives) in
        [("cifar10-page-whiten", [3, 3, 3, 27], false), ("cifar10-airbench94", [2, 2, 3, 24], true)]
    {
        let m = built_in(name);
        let whitening = m.whitening().expect("it whitens");
        assert_eq!((whitening.negatives, whitening.plan.patch), (negatives, shape[0]));
        let var = m.vars().get(m.vars().find("whiten.weight").expect("declared"));
        assert_eq!((var.role, var.shape.dims()), (Role::Fixed, &shape[..]));
    }
    assert_eq!(built_in("cifar10-resnet9").whitening(), None);
}

#[test]
fn filters_that_whiten_nothing_are_trained() {
    let mut plan = Plan::parse(workload("cifar10-airbench94").expect("built in").toml).expect("a plan");
    plan.set("model.whiten.images=0").expect("a setting");
    let m = Model::new(&plan.model, [32, 32, 3], 10).expect("a network");
    assert_eq!(m.whitening(), None);
    let var = m.vars().get(m.vars().find("whiten.weight").expect("declared"));
    assert_eq!((var.role, var.shape.dims()), (Role::Weight, &[2, 2, 3, 24][..]));
}

#[test]
fn a_model_that_does_not_fit_its_input_says_so() {
    let plan = parse("kind = \"simple-cnn\"\nchannels = [32, 64]");
    let error = Model::new(&plan, [8, 8, 1], 10).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("simple-cnn") && text.contains("[8, 8, 1]"), "{text}");
}

#[test]
fn a_model_of_ones_own_says_what_is_wrong() {
    let error = Model::own("mine", [4, 4, 1], 3, |net, x| net.graph.relu(x)).unwrap_err();
    assert_eq!(error.to_string(), "model `mine` gives [1, 4, 4, 1] for one example, expected logits [1, 3]");
    let error =
        Model::own("mine", [4, 4, 1], 3, |net, x| net.graph.max_pool(x, sooner_engine::Window::valid(5, 1)));
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("model `mine` cannot take input [4, 4, 1]: "), "{text}");
}

#[test]
fn dropout_wants_a_seed() {
    let plan = plan("cifar10-vgg11");
    let mut m = built_in("cifar10-vgg11");
    let error = m.update_program(2, &plan.optimizer).unwrap_err();
    assert_eq!(error, ModelError::Unseeded { model: "vgg11".into() });
    let update = m.trained_by(&plan).update_program(2, &plan.optimizer).unwrap();
    let keys: Vec<&Op> =
        update.graph.nodes().iter().map(|n| &n.op).filter(|op| op.name() == "dropout").collect();
    // Two layers, each forwards and backwards, with keys of their own.
    assert_eq!(keys.len(), 4);
    assert_ne!(keys[0], keys[1]);
    let eval = built_in("cifar10-vgg11").eval_program(2).unwrap();
    assert!(eval.graph.nodes().iter().all(|n| n.op.name() != "dropout"));
}

#[test]
fn every_workload_is_a_plan_that_holds() {
    for w in workloads() {
        let plan = plan(w.name);
        assert_eq!(plan.name, w.name);
        plan.check_without_data().unwrap_or_else(|e| panic!("{}: {e}", w.name));
        built_in(w.name);
    }
    assert_eq!(workloads()[0].name, DEFAULT_WORKLOAD);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), workloads().len(), "a plan that is not listed");
}
