// Trains dlib's vector_normalizer_frobmetric on triplets read from a file; called by frobmetric_dlib.py.
//   dlib_frobmetric INPUT OUTPUT C
// INPUT: int64 n, D, anchors, k; X (n x D doubles); anchors x (1 + 2k) int64 (anchor, k near, k far).
// OUTPUT: the D x D doubles of M. Prints the seconds that train() took.
#include <dlib/statistics.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>

int main(int argc, char** argv) {
    using column = dlib::matrix<double, 0, 1>;
    if (argc != 4) return 1;
    std::ifstream in(argv[1], std::ios::binary);
    int64_t head[4];
    in.read(reinterpret_cast<char*>(head), sizeof head);
    const long n = head[0], D = head[1], anchors = head[2], k = head[3];
    std::vector<column> X(n, column(D));
    for (auto& x : X) in.read(reinterpret_cast<char*>(&x(0)), D * sizeof(double));
    std::vector<dlib::frobmetric_training_sample<column>> samples(anchors);
    std::vector<int64_t> row(1 + 2 * k);
    for (auto& sample : samples) {
        in.read(reinterpret_cast<char*>(row.data()), row.size() * sizeof(int64_t));
        sample.anchor_vect = X[row[0]];
        for (long j = 0; j < k; ++j) {
            sample.near_vects.push_back(X[row[1 + j]]);
            sample.far_vects.push_back(X[row[1 + k + j]]);
        }
    }
    dlib::vector_normalizer_frobmetric<column> trainer;
    trainer.set_c(std::atof(argv[3]));
    const auto began = std::chrono::steady_clock::now();
    trainer.train(samples);
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() << std::endl;
    const dlib::matrix<double> L = trainer.transform();
    const dlib::matrix<double> M = dlib::trans(L) * L;
    std::ofstream out(argv[2], std::ios::binary);
    for (long i = 0; i < D; ++i)
        for (long j = 0; j < D; ++j) out.write(reinterpret_cast<const char*>(&M(i, j)), sizeof(double));
}
